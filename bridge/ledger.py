"""Every live request, what each agent did in the last hour, and the totals: records in, report values at `now` out.

A request is admitted once and closed once; between the two its connections are counted by flags of its record, so a
difference between the two ends is a fact that can be read, never arithmetic that can drift.
"""

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

from prometheus_client import Histogram

from bridge import report
from bridge.errors import AtCapacity

AGENT_MEMORY_S = 3600.0
MAX_AGENTS = 512  # remembered, so that clients that name themselves anew for each request do not fill the memory
TTFT_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
GAP_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0)


@dataclass(slots=True, eq=False)
class Record:
    """One admitted request while it lives: its answer and its exchange write it. Moments are seconds of one clock."""

    id: str
    request_id: str
    session: str
    agent: str
    model: str  # as it was asked for
    stream: bool
    arrived_at: float
    client_connected: bool = True
    upstream_open: bool = False
    phase: report.TurnPhase = "connecting"
    first_token_at: float | None = None
    last_byte_at: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int = 0
    pings: int = 0
    stop: str | None = None  # stop_reason, or the error's type; None while it lives
    failed: bool = False

    def decodes(self, phase: report.TurnPhase, now: float) -> None:
        self.phase = phase
        self.first_token_at = now if self.first_token_at is None else self.first_token_at

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_token_at is None else self.first_token_at - self.arrived_at

    @property
    def tok_s(self) -> float | None:
        """Output tokens per second after the first token; None when there is too little to divide."""
        first, last = self.first_token_at, self.last_byte_at
        if first is None or last is None or last <= first or self.output_tokens < 2:
            return None
        return (self.output_tokens - 1) / (last - first)

    def turn(self, now: float) -> report.Turn:
        same: dict[str, Any] = {name: getattr(self, name) for name in _SAME}
        silent_s = None if self.last_byte_at is None else now - self.last_byte_at
        return report.Turn(age_s=now - self.arrived_at, ttft_s=self.ttft_s, last_byte_age_s=silent_s, **same)


_SAME = {one.name for one in fields(report.Turn)} & {one.name for one in fields(Record)}
_GROWING = ("pings", "input_tokens", "cached_tokens", "output_tokens")
_OF_THE_LAST = ("input_tokens", "cached_tokens", "output_tokens", "ttft_s", "tok_s", "stop")


@dataclass(slots=True)
class _Agent:
    turns: int = 0
    errors: int = 0
    live: int = 0
    ended_at: float = 0.0
    last: Record | None = None


class Ledger:
    """`counts` is by field of report.Totals, without what live requests have gathered; `failed` is by error type;
    `cancelled` are upstreams closed as their client had left."""

    def __init__(self, max_streams: int) -> None:
        self._max_streams = max_streams
        self._live: dict[str, Record] = {}
        self._agents: dict[tuple[str, str], _Agent] = {}
        self.counts = Counter({one.name: 0 for one in fields(report.Totals)})
        self.failed: Counter[str] = Counter()
        self.cancelled = 0
        names = "passerelle_time_to_first_token_seconds", "passerelle_inter_token_gap_seconds"
        self.ttft = Histogram(names[0], "From arrival to the first token.", buckets=TTFT_BOUNDS, registry=None)
        self.gaps = Histogram(names[1], "Between reads while decoding.", buckets=GAP_BOUNDS, registry=None)

    def admit(self, record: Record) -> None:
        """Raises AtCapacity at once when max_streams requests are live, those whose upstream still closes included."""
        if len(self._live) >= self._max_streams:
            self.counts["refused"] += 1
            raise AtCapacity(f"{len(self._live)} requests are open, the most that this pod takes")
        self._live[record.id] = record
        self.counts["turns"] += 1
        self._agents.setdefault((record.session, record.agent), _Agent()).live += 1

    def heard(self, record: Record, now: float) -> None:
        if record.first_token_at is not None and record.last_byte_at is not None:
            self.gaps.observe(now - record.last_byte_at)
        record.last_byte_at = now

    def close(self, record: Record, now: float) -> None:
        """The request is over: its client has its answer or is gone, and its upstream is closed."""
        del self._live[record.id]
        _add(record, self.counts)
        if record.ttft_s is not None:
            self.ttft.observe(record.ttft_s)
        agent = self._agents[record.session, record.agent]
        if not record.client_connected:
            record.stop = "client_gone"
            self.counts["client_gone"] += 1
        elif record.failed:
            agent.errors += 1
            self.counts["failed"] += 1
            self.failed[record.stop or "unknown"] += 1
        else:
            self.counts["completed"] += 1
        agent.live -= 1
        agent.turns += 1
        agent.ended_at, agent.last = now, record
        self._forget(now)

    def turns(self, now: float) -> tuple[report.Turn, ...]:
        return tuple(record.turn(now) for record in self._live.values())

    def agents(self, now: float) -> tuple[report.Agent, ...]:
        self._forget(now)
        return tuple(_agent(*key, agent, now) for key, agent in self._agents.items())

    def connections(self, sockets: int) -> report.Connections:
        """`sockets` are what the server counts itself. None to the engine is idle: each request has its own."""
        live = self._live.values()
        return report.Connections(
            clients=sum(record.client_connected for record in live),
            sockets=sockets,
            upstreams=sum(record.upstream_open for record in live),
            upstreams_idle=0,
            orphans=sum(record.upstream_open and not record.client_connected for record in live),
        )

    def totals(self) -> report.Totals:
        """Live requests count as far as they have come, so that rates over these counters are smooth."""
        counts = Counter(self.counts)
        for record in self._live.values():
            _add(record, counts)
        return report.Totals(**counts)

    def _forget(self, now: float) -> None:
        idle = sorted((agent.ended_at, key) for key, agent in self._agents.items() if not agent.live)
        surplus = len(self._agents) - MAX_AGENTS
        for place, (ended_at, key) in enumerate(idle):
            if place < surplus or now - ended_at > AGENT_MEMORY_S:
                del self._agents[key]


def _add(record: Record, counts: Counter[str]) -> None:
    for name in _GROWING:
        counts[name] += getattr(record, name) or 0


def _agent(session: str, name: str, agent: _Agent, now: float) -> report.Agent:
    last: dict[str, Any] = {f"last_{one}": getattr(agent.last, one, None) for one in _OF_THE_LAST}
    idle_s = None if agent.live else now - agent.ended_at
    return report.Agent(session, name, agent.turns, agent.errors, idle_s, **last)
