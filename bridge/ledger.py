"""Every live request, the last that ended, the totals, where prompts broke: report values and Prometheus text."""

# A request is admitted once and closed once; between the two its connections are counted by flags of its record, so a
# difference between the two ends is a fact that can be read, never arithmetic that can drift.

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import accumulate, chain, islice
from typing import Any, get_args

import msgspec
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.errors import AtCapacity, Draining
from bridge.report import Connections, Turn, TurnPhase
from bridge.tables import TABLES

MAX_FINISHED = 200
TTFT_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
GAP_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0)
MAX_BYTES = 64 * 1024 * 1024  # of prompts that are kept; the longest unused are forgotten first
_ORDER = ("system", "tools", "messages")  # of a prompt, as templates render it
_lines = msgspec.json.Encoder().encode_lines
_REPORTED = [one.name for one in fields(Turn)]
_GROWING = ("pings", "input_tokens", "cached_tokens", "output_tokens")


# One admitted request: its answer and its exchange write it while it lives. Moments are seconds of one clock.
@dataclass(slots=True, eq=False)
class Record(Turn):
    request_id: str = ""
    arrived_at: float = 0.0
    last_byte_at: float | None = None
    ended_at: float | None = None
    failed: bool = False

    def decodes(self, phase: TurnPhase, now: float) -> None:
        self.phase = phase
        if self.ttft_s is None:
            self.ttft_s = now - self.arrived_at

    # As it is at that moment.
    def turn(self, now: float) -> Turn:
        self.age_s = now - self.arrived_at
        self.ended_age_s = None if self.ended_at is None else now - self.ended_at
        if self.last_byte_at is not None:
            self.last_byte_age_s = now - self.last_byte_at
            decoded_s = self.last_byte_at - self.arrived_at - (self.ttft_s or 0.0)
            if self.ttft_s is not None and decoded_s > 0 and self.output_tokens > 1:
                self.tok_s = (self.output_tokens - 1) / decoded_s
        return Turn(*(getattr(self, name) for name in _REPORTED))


# Every read of every stream is observed: prometheus_client's own histogram, with its locks, costs five times as much.
# `bounds` are the upper ends of the buckets, and the last bucket has none.
class Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, words: str) -> Metric:
        upto = zip((*map(str, self._bounds), "+Inf"), accumulate(self._counts), strict=True)
        return HistogramMetricFamily(f"passerelle_{name}", words, list(upto), self._sum)


# `counts` is by name of [counters], without what live requests have gathered; `failed` is by error type.
class Ledger:
    def __init__(self, max_streams: int) -> None:
        self._max_streams = max_streams
        self._live: dict[str, Record] = {}
        self._finished: deque[Record] = deque(maxlen=MAX_FINISHED)  # newest first
        self.draining, self.failed = False, Counter[str]()
        self.counts = Counter(dict.fromkeys(TABLES["counters"], 0))
        self._ttft, self._gaps = Histogram(TTFT_BOUNDS), Histogram(GAP_BOUNDS)

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
        if record.ttft_s is not None and record.last_byte_at is not None:
            self._gaps.observe(now - record.last_byte_at)
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
            self._ttft.observe(record.ttft_s)
        self._finished.appendleft(record)

    def turns(self, now: float) -> tuple[Turn, ...]:
        return tuple(record.turn(now) for record in self._live.values())

    def finished(self, now: float, most: int) -> tuple[Turn, ...]:
        return tuple(record.turn(now) for record in islice(self._finished, most))

    # The last turn that each (session, agent) ended, as far as `finished` reaches.
    def agents(self, now: float) -> tuple[Turn, ...]:
        last = {(record.session, record.agent): record for record in reversed(self._finished)}
        return tuple(record.turn(now) for record in last.values())

    # `sockets` as the server counts them, `upstream_sockets` as the kernel does.
    def connections(self, sockets: int, upstream_sockets: int | None = None) -> Connections:
        live = self._live.values()
        clients, upstreams = sum(one.client_connected for one in live), sum(one.upstream_open for one in live)
        orphans = sum(one.upstream_open and not one.client_connected for one in live)
        return Connections(clients, sockets, upstreams, orphans, upstream_sockets)

    # Live requests count as far as they have come, so that rates over these counters are smooth.
    def totals(self) -> dict[str, int]:
        counts = Counter(self.counts)
        for record in self._live.values():
            counts.update(_gathered(record))
        return dict(counts)

    # Our families as text. `started_at` in Unix seconds; `restarts` of the bridge, if somebody counts them.
    def metrics(self, connections: Connections, started_at: float, restarts: int | None) -> str:
        phases = dict.fromkeys(get_args(TurnPhase), 0) | Counter(record.phase for record in self._live.values())
        counts = self.totals() | ({} if restarts is None else {"bridge_restarts": restarts})
        words = {"bridge_restarts": "Of the bridge, by the supervisor."} | TABLES["counters"]
        start = GaugeMetricFamily("passerelle_process_start_time_seconds", "Unix time of our start.", started_at)
        connected = GaugeMetricFamily("passerelle_connections", "Open ones, as in /pod/report.", labels=["end"])
        live = GaugeMetricFamily("passerelle_turns_live", "Live requests.", labels=["phase"])
        failed = CounterMetricFamily("passerelle_turn_errors", "Requests that failed, by type.", labels=["kind"])
        for family, values in ((connected, asdict(connections)), (live, phases), (failed, self.failed)):
            for label, value in values.items():
                family.add_metric([label], value or 0)
        counters = [CounterMetricFamily(f"passerelle_{name}", words[name], count) for name, count in counts.items()]
        first = self._ttft.family("time_to_first_token_seconds", "From arrival to the first token.")
        gaps = self._gaps.family("inter_token_gap_seconds", "Between reads while decoding.")
        return generate_latest(_Families([start, connected, live, failed, *counters, first, gaps])).decode()


@dataclass
class _Families(Collector):
    families: list[Metric]

    def collect(self) -> list[Metric]:
        return self.families


def _gathered(record: Record) -> dict[str, int]:
    return {name: getattr(record, name) or 0 for name in _GROWING}


# Where a conversation's prompt leaves its last turn's, there the engine's prefix cache ends.
# Kept is the last prompt of each conversation, as JSON lines: a prompt that grew has the one before as its prefix.
class Prefixes:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._kept = max_bytes, dict[tuple[str, str], bytes]()

    # None while the prompt in `request` only grows, and for a first turn.
    def take(self, conversation: tuple[str, str], request: Mapping[str, Any]) -> str | None:
        parts = [part if isinstance(part := request.get(name), list) else [part] for name in _ORDER]
        was, now = self._kept.pop(conversation, b""), _lines(chain(*parts))
        self._kept[conversation] = now
        surplus = sum(map(len, self._kept.values())) - self._max_bytes
        while surplus > 0:
            surplus -= len(self._kept.pop(next(iter(self._kept))))
        at = _common(was, now)
        if at == min(len(was), len(now)):
            return None
        line = now.count(b"\n", 0, at)
        return f"at byte {at} of {len(was)}, in part {line}: {_around(was, at)!r} became {_around(now, at)!r}"


# Halving: each step compares at C speed what is not known to be equal yet, so all of them read the text twice at most.
def _common(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _around(text: bytes, at: int) -> str:
    return text[max(0, at - 40) : at + 40].decode("utf-8", "replace")
