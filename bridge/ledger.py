"""Every live request, the last that ended, and the totals: records in, report values at `now` out. Pure."""

# A request is admitted once and closed once; between the two its connections are counted by flags of its record, so a
# difference between the two ends is a fact that can be read, never arithmetic that can drift.

from collections import Counter, deque
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

from prometheus_client import Histogram

from bridge.errors import AtCapacity, Draining
from bridge.report import Connections, Turn, TurnPhase
from bridge.tables import TABLES

MAX_FINISHED = 200
TTFT_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
GAP_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0)


# One admitted request: its answer and its exchange write it while it lives. Moments are seconds of one clock.
@dataclass(slots=True, eq=False)
class Record:
    id: str
    request_id: str
    session: str
    agent: str
    model: str  # as it was asked for
    stream: bool
    arrived_at: float
    client_connected: bool = True
    upstream_open: bool = False
    phase: TurnPhase = "connecting"
    first_token_at: float | None = None
    last_byte_at: float | None = None
    ended_at: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int = 0
    pings: int = 0
    prefix_break: str | None = None
    stop: str | None = None  # stop_reason, error type or "client_gone"; None while it lives
    guarded: str | None = None  # the marker of a whole-file write that leaves a part out
    failed: bool = False

    def decodes(self, phase: TurnPhase, now: float) -> None:
        self.phase = phase
        self.first_token_at = now if self.first_token_at is None else self.first_token_at

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_token_at is None else self.first_token_at - self.arrived_at

    # None when there is too little to divide.
    @property
    def tok_s(self) -> float | None:
        first, last = self.first_token_at, self.last_byte_at
        if first is None or last is None or last <= first or self.output_tokens < 2:
            return None
        return (self.output_tokens - 1) / (last - first)

    def turn(self, now: float) -> Turn:
        values: dict[str, Any] = {name: getattr(self, name) for name in _SAME}
        for name, moment in (("last_byte_age_s", self.last_byte_at), ("ended_age_s", self.ended_at)):
            values[name] = None if moment is None else now - moment
        return Turn(age_s=now - self.arrived_at, **values)


_SAME = {one.name for one in fields(Turn)} - {"age_s", "last_byte_age_s", "ended_age_s"}
_GROWING = ("pings", "input_tokens", "cached_tokens", "output_tokens")


class Ledger:
    """`counts` is by name of [counters], without what live requests have gathered; `failed` is by error type."""

    def __init__(self, max_streams: int) -> None:
        self._max_streams = max_streams
        self._live: dict[str, Record] = {}
        self._finished: deque[Record] = deque(maxlen=MAX_FINISHED)  # newest first
        self.draining = False
        self.counts = Counter(dict.fromkeys(TABLES["counters"], 0))
        self.failed: Counter[str] = Counter()
        names = "passerelle_time_to_first_token_seconds", "passerelle_inter_token_gap_seconds"
        self.ttft = Histogram(names[0], "From arrival to the first token.", buckets=TTFT_BOUNDS, registry=None)
        self.gaps = Histogram(names[1], "Between reads while decoding.", buckets=GAP_BOUNDS, registry=None)

    # Raises Draining, and AtCapacity at once when max_streams requests are live, closing ones included.
    def admit(self, record: Record) -> None:
        if self.draining or len(self._live) >= self._max_streams:
            self.counts["refused"] += 1
            if self.draining:
                raise Draining("this pod takes no new requests for now")
            raise AtCapacity(f"{len(self._live)} requests are open, the most that this pod takes")
        self._live[record.id] = record
        self.counts["turns"] += 1

    def heard(self, record: Record, now: float) -> None:
        if record.first_token_at is not None and record.last_byte_at is not None:
            self.gaps.observe(now - record.last_byte_at)
        record.last_byte_at = now

    # The request is over: its client has its answer or is gone, and its upstream is closed.
    def close(self, record: Record, now: float) -> None:
        del self._live[record.id]
        record.ended_at = now
        if not record.client_connected:
            record.stop = "client_gone"
        elif record.failed:
            self.failed[record.stop or "unknown"] += 1
        outcome = "failed" if record.failed else "completed"
        self.counts[outcome if record.client_connected else "client_gone"] += 1
        self.counts["guarded"] += record.guarded is not None
        self.counts.update(_gathered(record))
        if record.ttft_s is not None:
            self.ttft.observe(record.ttft_s)
        self._finished.appendleft(record)

    def turns(self, now: float) -> tuple[Turn, ...]:
        return tuple(record.turn(now) for record in self._live.values())

    def finished(self, now: float, most: int) -> tuple[Turn, ...]:
        return tuple(record.turn(now) for record in islice(self._finished, most))

    # The last turn that each (session, agent) ended, as far as `finished` reaches.
    def agents(self, now: float) -> tuple[Turn, ...]:
        last = {(record.session, record.agent): record for record in reversed(self._finished)}
        return tuple(record.turn(now) for record in last.values())

    # `sockets` as the server counts them, `upstream_sockets` as the kernel does. No upstream is ever idle.
    def connections(self, sockets: int, upstream_sockets: int | None = None) -> Connections:
        live = self._live.values()
        clients, upstreams = sum(one.client_connected for one in live), sum(one.upstream_open for one in live)
        orphans = sum(one.upstream_open and not one.client_connected for one in live)
        return Connections(clients, sockets, upstreams, 0, orphans, upstream_sockets)

    # Live requests count as far as they have come, so that rates over these counters are smooth.
    def totals(self) -> dict[str, int]:
        counts = Counter(self.counts)
        for record in self._live.values():
            counts.update(_gathered(record))
        return dict(counts)


def _gathered(record: Record) -> dict[str, int]:
    return {name: getattr(record, name) or 0 for name in _GROWING}
