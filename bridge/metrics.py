"""Prometheus text: which of the engine's families travel in a report, and our own families. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import get_args

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.ledger import Ledger
from bridge.report import Connections, TurnPhase

_HISTOGRAMS = ("vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds")


def for_report(text: str) -> str:
    """The vllm: families that the console reads: no help, no *_created, and of the histograms only two."""
    kept: list[str] = []
    keep = False
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            keep = name == "process_start_time_seconds" or (name.startswith("vllm:") and not name.endswith("_created"))
            keep = keep and (kind != "histogram" or name in _HISTOGRAMS)
        if keep and not line.startswith("# HELP"):
            kept.append(line + "\n")
    return "".join(kept)


@dataclass
class Ours(Collector):
    """Our families, prefix passerelle_. `started_at` in Unix seconds; `restarts` of the bridge, if somebody counts."""

    ledger: Ledger
    connections: Connections
    started_at: float
    restarts: int | None

    def text(self) -> bytes:
        return generate_latest(self)

    def collect(self) -> Iterable[Metric]:
        ledger = self.ledger
        phases = dict.fromkeys(get_args(TurnPhase), 0) | Counter(turn.phase for turn in ledger.turns(now=0.0))
        yield GaugeMetricFamily("passerelle_process_start_time_seconds", "Unix time of our start.", self.started_at)
        yield _by("end", GaugeMetricFamily, "connections", "Open ones, as in /pod/report.", asdict(self.connections))
        yield _by("phase", GaugeMetricFamily, "turns_live", "Live requests.", phases)
        yield _by("kind", CounterMetricFamily, "turn_errors", "Requests that failed, by error type.", ledger.failed)
        counts = {**asdict(ledger.totals()), "upstreams_cancelled": ledger.cancelled}
        if self.restarts is not None:
            counts["bridge_restarts"] = self.restarts
        for name, count in counts.items():
            yield CounterMetricFamily(f"passerelle_{name}", "As in /pod/report.", count)
        yield from (*ledger.ttft.collect(), *ledger.gaps.collect())


def _by(
    label: str, kind: type[GaugeMetricFamily | CounterMetricFamily], name: str, text: str, values: Mapping[str, int]
) -> Metric:
    family = kind(f"passerelle_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
