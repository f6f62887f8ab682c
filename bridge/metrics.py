"""Prometheus text: which of the engine's families travel in a report, and our own families. Pure."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import get_args

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.ledger import Ledger
from bridge.report import Connections, TurnPhase
from bridge.tables import TABLES

# Of vLLM's histograms the samples of only two travel, and no *_created.
_KEPT = re.compile(
    r"(# TYPE )?(process_start_time_seconds"
    r"|vllm:(time_to_first_token|inter_token_latency)_seconds_(bucket|sum|count)"
    r"|vllm:request_(prefill|decode)_time_seconds_sum"
    r"|vllm:\w+(?<!_bucket)(?<!_sum)(?<!_count)(?<!_created))[ {]"
)


# The families that the console reads, each line unchanged.
def for_report(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if _KEPT.match(line))


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
        phases = dict.fromkeys(get_args(TurnPhase), 0) | Counter(turn.phase for turn in self.ledger.turns(now=0.0))
        yield GaugeMetricFamily("passerelle_process_start_time_seconds", "Unix time of our start.", self.started_at)
        for family, name, label, words, values in (
            (GaugeMetricFamily, "connections", "end", "Open ones, as in /pod/report.", asdict(self.connections)),
            (GaugeMetricFamily, "turns_live", "phase", "Live requests.", phases),
            (CounterMetricFamily, "turn_errors", "kind", "Requests that failed, by error type.", self.ledger.failed),
        ):
            metric = family(f"passerelle_{name}", words, labels=[label])
            for key, value in values.items():
                metric.add_metric([key], value or 0)
            yield metric
        for name, count in self.ledger.totals().items():
            yield CounterMetricFamily(f"passerelle_{name}", TABLES["counters"][name], count)
        if self.restarts is not None:
            yield CounterMetricFamily("passerelle_bridge_restarts", "Of the bridge, by the supervisor.", self.restarts)
        yield from (*self.ledger.ttft.collect(), *self.ledger.gaps.collect())
