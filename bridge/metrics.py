"""Prometheus text: which of the engine's families travel in a report, and our own families. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.ledger import Histogram, Ledger
from bridge.report import Connections

_HISTOGRAMS = ("vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds")
_START = "process_start_time_seconds"


def for_report(text: str) -> str:
    """The vllm: families that the console reads: no help, no *_created, and of the histograms only two."""
    kept: list[str] = []
    keep = False
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            keep = _wanted(name, kind)
        elif line.startswith("#"):
            continue
        if keep:
            kept.append(line)
    return "\n".join(kept) + "\n" if kept else ""


def _wanted(name: str, kind: str) -> bool:
    if name == _START:
        return True
    if not name.startswith("vllm:") or name.endswith("_created"):
        return False
    return kind != "histogram" or name in _HISTOGRAMS


def process_start(text: str) -> str | None:
    """What tells one engine process from the next; None when the engine does not say."""
    for line in text.splitlines():
        if line.startswith(_START + " "):
            return line.removeprefix(_START + " ")
    return None


def ours(ledger: Ledger, connections: Connections, *, started_at: float, bridge_restarts: int | None) -> bytes:
    """Our families, prefix passerelle_. `started_at` in Unix seconds."""
    registry = CollectorRegistry()
    registry.register(_Families(ledger, connections, started_at, bridge_restarts))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(
        self, ledger: Ledger, connections: Connections, started_at: float, bridge_restarts: int | None
    ) -> None:
        self._ledger = ledger
        self._connections = connections
        self._started_at = started_at
        self._bridge_restarts = bridge_restarts

    def collect(self) -> Iterable[Metric]:
        yield from self._gauges()
        yield from self._counters()
        yield _histogram(
            "passerelle_time_to_first_token_seconds", "From a request's arrival to its first token.", self._ledger.ttft
        )
        yield _histogram(
            "passerelle_inter_token_gap_seconds", "Between reads from the engine while it decodes.", self._ledger.gaps
        )

    def _gauges(self) -> Iterable[Metric]:
        connections = self._connections
        yield _gauge("passerelle_clients_connected", "Requests whose client waits for an answer.", connections.clients)
        yield _gauge("passerelle_client_sockets", "TCP connections that clients hold open.", connections.sockets)
        upstream = GaugeMetricFamily("passerelle_upstream_connections", "To the engine, by state.", labels=["state"])
        upstream.add_metric(["open"], connections.upstreams)
        upstream.add_metric(["idle"], connections.upstreams_idle)
        upstream.add_metric(["orphaned"], connections.orphans)
        yield upstream
        turns = GaugeMetricFamily("passerelle_turns_live", "Live turns by phase.", labels=["phase"])
        phases = Counter(entry.progress.phase for entry in self._ledger.live)
        for phase in ("connecting", "pending", "thinking", "text", "tool"):
            turns.add_metric([phase], phases[phase])
        yield turns
        yield _gauge("passerelle_process_start_time_seconds", "Unix time of the bridge's start.", self._started_at)
        if self._bridge_restarts is not None:
            yield CounterMetricFamily(
                "passerelle_bridge_restarts", "As the supervisor counts them.", value=self._bridge_restarts
            )

    def _counters(self) -> Iterable[Metric]:
        totals = self._ledger.totals()
        for name, help_text, value in (
            ("turns", "Requests admitted.", totals.turns),
            ("turns_completed", "Turns that ended with an answer.", totals.completed),
            ("turns_client_gone", "Turns whose client left first.", totals.client_gone),
            ("refusals", "Requests turned away at max_streams.", totals.refused),
            ("unauthorized", "Requests without a valid token.", totals.unauthorized),
            ("pings", "Pings sent into silence.", totals.pings),
            ("upstreams_cancelled", "Upstreams closed early.", self._ledger.counts.cancelled_upstreams),
            ("input_tokens", "Prompt tokens, cached ones included.", totals.input_tokens),
            ("cached_tokens", "Prompt tokens found in the prefix cache.", totals.cached_tokens),
            ("output_tokens", "Tokens decoded.", totals.output_tokens),
        ):
            yield CounterMetricFamily(f"passerelle_{name}", help_text, value=value)
        errors = CounterMetricFamily("passerelle_turn_errors", "Turns that failed, by error type.", labels=["kind"])
        rejected = CounterMetricFamily("passerelle_rejected", "Requests that made no sense, by kind.", labels=["kind"])
        for family, counter in ((errors, self._ledger.counts.failed), (rejected, self._ledger.counts.rejected)):
            for kind, number in counter.items():
                family.add_metric([kind], number)
            yield family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _histogram(name: str, help_text: str, histogram: Histogram) -> Metric:
    buckets: list[tuple[str, float]] = []
    running = 0
    for bound, number in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        running += number
        buckets.append((bound, running))
    return HistogramMetricFamily(name, help_text, buckets=buckets, sum_value=histogram.sum)
