"""Every live turn, what each agent did in the last hour, and the totals: counts in, report values at `now` out.

A turn is admitted once and closed once; between the two its connections are counted by flags of its entry, so a
difference between the two ends is a fact that can be read, never arithmetic that can drift.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from bridge import report
from bridge.answer import Answer, Progress
from bridge.errors import AtCapacity

AGENT_MEMORY_S = 3600.0
MAX_AGENTS = 512
"""Of the remembered ones, so that clients that name themselves anew for each request do not fill the memory."""
TTFT_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
GAP_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0)


class Histogram:
    """Seconds, in buckets by upper bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True, eq=False)
class Entry:
    """One admitted request. The exchange that owns it sets the flags; nobody else does."""

    id: str
    session: str
    agent: str
    model: str
    stream: bool
    arrived_at: float
    answer: Answer
    client_connected: bool = True
    upstream_open: bool = False

    @property
    def progress(self) -> Progress:
        return self.answer.progress


@dataclass(slots=True)
class _Agent:
    turns: int = 0
    errors: int = 0
    live: int = 0
    ended_at: float = 0.0
    last: Progress | None = None
    last_ttft_s: float | None = None
    last_tok_s: float | None = None
    last_stop: str | None = None


@dataclass(slots=True)
class Counts:
    """Since this process began."""

    turns: int = 0
    completed: int = 0
    client_gone: int = 0
    refused: int = 0
    unauthorized: int = 0
    pings: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cancelled_upstreams: int = 0
    """Upstreams closed before their end because their client left."""
    failed: Counter[str] = field(default_factory=Counter)
    """By error type."""
    rejected: Counter[str] = field(default_factory=Counter)
    """By error type: requests that never became a turn because they made no sense."""


class Ledger:
    def __init__(self, max_streams: int) -> None:
        self._max_streams = max_streams
        self._live: dict[str, Entry] = {}
        self._agents: dict[tuple[str, str], _Agent] = {}
        self.counts = Counts()
        self.ttft = Histogram(TTFT_BOUNDS)
        self.gaps = Histogram(GAP_BOUNDS)

    @property
    def live(self) -> tuple[Entry, ...]:
        return tuple(self._live.values())

    def admit(self, entry: Entry) -> None:
        """Raises AtCapacity at once when max_streams requests are live, those whose upstream still closes included."""
        if len(self._live) >= self._max_streams:
            self.counts.refused += 1
            raise AtCapacity(f"{len(self._live)} requests are open, the most that this pod takes")
        self._live[entry.id] = entry
        self.counts.turns += 1
        self._agents.setdefault((entry.session, entry.agent), _Agent()).live += 1

    def close(self, entry: Entry, now: float) -> None:
        """The request is over: its client has its answer or is gone, and its upstream is closed."""
        del self._live[entry.id]
        progress, counts = entry.progress, self.counts
        self._take_gaps(progress)
        counts.pings += progress.pings
        counts.input_tokens += progress.input_tokens or 0
        counts.cached_tokens += progress.cached_tokens or 0
        counts.output_tokens += progress.output_tokens
        if progress.first_token_at is not None:
            self.ttft.observe(progress.first_token_at - entry.arrived_at)
        if not entry.client_connected:
            counts.client_gone += 1
        elif progress.failed:
            counts.failed[progress.stop or "unknown"] += 1
        else:
            counts.completed += 1
        self._remember(entry, now)
        self._forget(now)

    def turns(self, now: float) -> tuple[report.Turn, ...]:
        return tuple(_turn(entry, now) for entry in self._live.values())

    def agents(self, now: float) -> tuple[report.Agent, ...]:
        """Those of the last hour, the live ones included."""
        self._forget(now)
        return tuple(_agent(key, agent, now) for key, agent in self._agents.items())

    def connections(self, *, sockets: int, upstreams_idle: int) -> report.Connections:
        """`sockets` and `upstreams_idle` are what the server and the engine's client count themselves."""
        live = self._live.values()
        return report.Connections(
            clients=sum(entry.client_connected for entry in live),
            sockets=sockets,
            upstreams=sum(entry.upstream_open for entry in live),
            upstreams_idle=upstreams_idle,
            orphans=sum(entry.upstream_open and not entry.client_connected for entry in live),
        )

    def totals(self) -> report.Totals:
        """Live turns count as far as they have come, so that rates over these counters are smooth."""
        counts, live = self.counts, [entry.progress for entry in self._live.values()]
        return report.Totals(
            turns=counts.turns,
            completed=counts.completed,
            failed=counts.failed.total(),
            client_gone=counts.client_gone,
            refused=counts.refused,
            unauthorized=counts.unauthorized,
            pings=counts.pings + sum(progress.pings for progress in live),
            input_tokens=counts.input_tokens + sum(progress.input_tokens or 0 for progress in live),
            cached_tokens=counts.cached_tokens + sum(progress.cached_tokens or 0 for progress in live),
            output_tokens=counts.output_tokens + sum(progress.output_tokens for progress in live),
        )

    def settle(self) -> None:
        """Move what live turns have gathered into the histograms."""
        for entry in self._live.values():
            self._take_gaps(entry.progress)

    def _take_gaps(self, progress: Progress) -> None:
        for gap in progress.gaps:
            self.gaps.observe(gap)
        progress.gaps.clear()

    def _remember(self, entry: Entry, now: float) -> None:
        progress = entry.progress
        agent = self._agents[entry.session, entry.agent]
        agent.live -= 1
        agent.turns += 1
        agent.ended_at = now
        agent.last = progress
        first = progress.first_token_at
        agent.last_ttft_s = None if first is None else first - entry.arrived_at
        agent.last_tok_s = _decode_rate(progress)
        agent.errors += progress.failed and entry.client_connected
        agent.last_stop = progress.stop if entry.client_connected else "client_gone"

    def _forget(self, now: float) -> None:
        idle = [key for key, agent in self._agents.items() if not agent.live]
        surplus = len(self._agents) - MAX_AGENTS
        oldest = sorted(idle, key=lambda key: self._agents[key].ended_at)[:surplus] if surplus > 0 else []
        expired = [key for key in idle if now - self._agents[key].ended_at > AGENT_MEMORY_S]
        for key in {*oldest, *expired}:
            del self._agents[key]


def _decode_rate(progress: Progress) -> float | None:
    """Output tokens per second after the first token; None when there is too little to divide."""
    first, last = progress.first_token_at, progress.last_byte_at
    if first is None or last is None or last <= first or progress.output_tokens < 2:
        return None
    return (progress.output_tokens - 1) / (last - first)


def _turn(entry: Entry, now: float) -> report.Turn:
    progress = entry.progress
    first, last = progress.first_token_at, progress.last_byte_at
    return report.Turn(
        id=entry.id,
        session=entry.session,
        agent=entry.agent,
        model=entry.model,
        phase=progress.phase,
        stream=entry.stream,
        age_s=now - entry.arrived_at,
        ttft_s=None if first is None else first - entry.arrived_at,
        last_byte_age_s=None if last is None else now - last,
        input_tokens=progress.input_tokens,
        cached_tokens=progress.cached_tokens,
        output_tokens=progress.output_tokens,
        pings=progress.pings,
    )


def _agent(key: tuple[str, str], agent: _Agent, now: float) -> report.Agent:
    last = agent.last
    return report.Agent(
        session=key[0],
        agent=key[1],
        turns=agent.turns,
        errors=agent.errors,
        idle_s=None if agent.live else now - agent.ended_at,
        last_input_tokens=None if last is None else last.input_tokens,
        last_cached_tokens=None if last is None else last.cached_tokens,
        last_output_tokens=None if last is None else last.output_tokens,
        last_ttft_s=agent.last_ttft_s,
        last_tok_s=agent.last_tok_s,
        last_stop=agent.last_stop,
    )
