"""The simulated engine's /metrics: prometheus_client families of vLLM 0.32, counted when vLLM counts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    Summary,
    generate_latest,
)

from control.local import engine_families as known
from control.local.engine_scheduler import Request

_FAST = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is read at each scrape instead of being counted."""

    running: int
    waiting: Mapping[str, int]
    """By reason."""
    kv_usage: float
    preemptions: int
    """Since the process began."""


class Metrics:
    """The vLLM families of one engine. `registry` holds them, and the families of Python and of the process."""

    def __init__(self, model: str, window: int, cache_config: Mapping[str, str]) -> None:
        self.registry = CollectorRegistry()
        GCCollector(self.registry)
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self._counters: dict[tuple[str, str], Counter] = {}
        self._gauges: dict[tuple[str, str], Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for family in known.families(window):
            self._add(family, model)
        self._gauges["engine_sleep_state", "awake"].set(1)
        info = "Information of the LLMEngine CacheConfig"
        config = Gauge("vllm:cache_config_info", info, sorted(cache_config), registry=self.registry)
        config.labels(**cache_config).set(1)
        names = ["mode", "outcome", "request_type", "model_name"]
        parser = Counter("vllm:tool_call_parser_invocations", known.PARSER_HELP, names, registry=self.registry)
        self._parser = {
            (mode, outcome, kind): parser.labels(mode, outcome, kind, model)
            for mode in known.PARSER_MODES
            for outcome in known.PARSER_OUTCOMES
            for kind in known.PARSER_TYPES
        }
        self._preemptions = 0
        self.http = HttpMetrics(self.registry)

    def slept(self, level: int | None) -> None:
        """Asleep at this level; None: awake."""
        for state, on in (("awake", None), ("weights_offloaded", 1), ("discard_all", 2)):
            self._gauges["engine_sleep_state", state].set(1 if level == on else 0)

    def text(self, gauges: Gauges) -> bytes:
        """The exposition, in Prometheus' text format."""
        self._gauges["num_requests_running", ""].set(gauges.running)
        self._gauges["num_requests_waiting", ""].set(sum(gauges.waiting.values()))
        for reason, count in gauges.waiting.items():
            self._gauges["num_requests_waiting_by_reason", reason].set(count)
        self._gauges["kv_cache_usage_perc", ""].set(gauges.kv_usage)
        self._count("num_preemptions", gauges.preemptions - self._preemptions)
        self._preemptions = gauges.preemptions
        return generate_latest(self.registry)

    def admitted(self, request: Request) -> None:
        """The prefix cache was asked: at the first admission of a request, not when it comes back from preemption."""
        hit = request.cached or 0
        self._count("prefix_cache_queries", request.prompt_tokens)
        self._count("prefix_cache_hits", hit)
        self._count("prompt_tokens_cached_by_source", hit, "device")

    def stepped(self, got: list[Request], now: float) -> None:
        """One step ended at `now` and these requests got a token."""
        if not got:
            return
        prefilled = 0
        for request in got:
            if request.gap_s is None:
                prefilled += self._first_token(request, now)
            else:
                self._observe("inter_token_latency_seconds", request.gap_s)
        self._count("generation_tokens", len(got))
        self._observe("iteration_tokens_total", prefilled + len(got))

    def finished(self, request: Request, reason: str, max_tokens: int | None, now: float) -> None:
        """One request ended by itself. Requests that a client left are not counted: vLLM does not count them either."""
        admitted, first, last = request.admitted_at, request.first_token_at, request.last_token_at
        if admitted is None or first is None or last is None:
            return
        self._count("request_success", 1, "length" if reason == "length" else "stop")
        self._observe("request_prompt_tokens", request.prompt_tokens)
        self._observe("request_generation_tokens", request.generated)
        self._observe("request_max_num_generation_tokens", request.generated)
        self._observe("request_params_n", 1)
        if max_tokens is not None:
            self._observe("request_params_max_tokens", max_tokens)
        self._observe("e2e_request_latency_seconds", now - request.arrived)
        self._observe("request_queue_time_seconds", admitted - request.arrived)
        self._observe("request_inference_time_seconds", last - admitted)
        self._observe("request_prefill_time_seconds", first - admitted)
        self._observe("request_decode_time_seconds", last - first)
        self._observe("request_time_per_output_token_seconds", (last - first) / max(1, request.generated - 1))
        self._observe("request_num_preemptions", request.preemptions)
        self._observe("request_prefill_kv_computed_tokens", request.prompt_tokens - (request.cached or 0))

    def parsed(self, found: Mapping[str, int], *, stream: bool, chat: bool) -> None:
        """What the tool parser saw in one answer: how often a call, how often none."""
        mode = "streaming" if stream else "non_streaming"
        for outcome, count in found.items():
            self._parser[mode, outcome, "chat_completions" if chat else "other"].inc(count)

    def _first_token(self, request: Request, now: float) -> int:
        """Prompt tokens are counted when the first token comes. Returns those that were computed."""
        hit = request.cached or 0
        computed = request.prompt_tokens - hit
        self._count("prompt_tokens", request.prompt_tokens)
        self._count("prompt_tokens_by_source", computed, "local_compute")
        self._count("prompt_tokens_by_source", hit, "local_cache_hit")
        self._count("prompt_tokens_cached", hit)
        self._observe("time_to_first_token_seconds", now - request.arrived)
        return computed

    def _count(self, name: str, amount: int, value: str = "") -> None:
        self._counters[name, value].inc(amount)

    def _observe(self, name: str, amount: float) -> None:
        self._histograms[name].observe(amount)

    def _add(self, family: known.Family, model: str) -> None:
        fixed = {"model_name": model} if family.engineless else {"engine": "0", "model_name": model}
        names = [*fixed, *([family.label] if family.label else [])]
        short = family.name.removeprefix("vllm:")
        children = [
            (value, fixed | ({family.label: value} if family.label else {})) for value in family.values or ("",)
        ]
        match family.kind:
            case "counter":
                counter = Counter(family.name, family.help, names, registry=self.registry)
                self._counters |= {(short, value): counter.labels(**labels) for value, labels in children}
            case "gauge":
                gauge = Gauge(family.name, family.help, names, registry=self.registry)
                self._gauges |= {(short, value): gauge.labels(**labels) for value, labels in children}
            case "histogram":
                histogram = Histogram(family.name, family.help, names, registry=self.registry, buckets=family.buckets)
                self._histograms[short] = histogram.labels(**fixed)


class HttpMetrics:
    """The families that prometheus-fastapi-instrumentator gives vLLM's server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        total = "Total number of requests by method, status and handler."
        self._requests = Counter("http_requests", total, ["method", "status", "handler"], registry=registry)
        only = "Only value of header is respected. Otherwise ignored. No percentile calculated. "
        came = f"Content length of incoming requests by handler. {only}"
        went = f"Content length of outgoing responses by handler. {only}"
        self._request_size = Summary("http_request_size_bytes", came, ["handler"], registry=registry)
        self._response_size = Summary("http_response_size_bytes", went, ["handler"], registry=registry)
        many = "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. "
        few = "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. "
        self._fine = Histogram("http_request_duration_highr_seconds", many, registry=registry, buckets=_FAST)
        self._coarse = Histogram(
            "http_request_duration_seconds", few, ["handler", "method"], registry=registry, buckets=(0.1, 0.5, 1)
        )

    def served(
        self, *, method: str, handler: str, status: int, took_s: float, request_bytes: int, response_bytes: int
    ) -> None:
        """One answer ended. Sizes are what the content-length headers said, 0 without one (a stream)."""
        self._requests.labels(method, f"{status // 100}xx", handler).inc()
        self._request_size.labels(handler).observe(request_bytes)
        self._response_size.labels(handler).observe(response_bytes)
        self._fine.observe(took_s)
        self._coarse.labels(handler, method).observe(took_s)
