"""Prometheus text of a vLLM server -> EngineMetrics. Pure; knows the names of vLLM's families and nothing else.

A family that is missing is None, never zero: engines differ by version. Several engines behind one server
(data parallel, label `engine`) are added up, save for KV usage, which is averaged over their caches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

Buckets = tuple[tuple[float, float], ...]
"""(upper bound in seconds, cumulative count), ascending; the last bound is infinity."""


class ScrapeError(ValueError):
    """The text is not Prometheus exposition format."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What only grows while one engine process lives; reset to zero when it starts again."""

    prompt_computed: float | None = None
    """Prompt tokens really computed: prompt_tokens_by_source{source="local_compute"}."""
    prompt_cached: float | None = None
    """Every other source: the prefix cache of this engine or of another."""
    generation: float | None = None
    preemptions: float | None = None
    cache_queries: float | None = None
    cache_hits: float | None = None
    finished: float | None = None
    prefill_s: float | None = None
    """Seconds that finished requests spent in prefill, added up over all of them."""
    decode_s: float | None = None


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """One scrape."""

    start_time: float | None
    """Unix time at which the engine's process began; a change means a restart."""
    model: str | None
    running: int | None
    waiting: int | None
    waiting_capacity: int | None
    waiting_deferred: int | None
    kv_usage: float | None
    kv_tokens: int | None
    counters: Counters
    ttft: Buckets = ()
    itl: Buckets = ()


def parse(text: str) -> EngineMetrics:
    """Raises ScrapeError when the text cannot be read at all."""
    try:
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"not Prometheus text: {error}") from error
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    return _engine(by_name)


def _engine(found: dict[str, list[Sample]]) -> EngineMetrics:
    by_reason = found.get("vllm:num_requests_waiting_by_reason", [])
    usage = [s.value for s in found.get("vllm:kv_cache_usage_perc", found.get("vllm:gpu_cache_usage_perc", []))]
    start = [s.value for s in found.get("process_start_time_seconds", [])]
    running = found.get("vllm:num_requests_running", [])
    return EngineMetrics(
        start_time=start[0] if start else None,
        model=running[0].labels.get("model_name") if running else None,
        running=_whole(_sum(running)),
        waiting=_whole(_sum(found.get("vllm:num_requests_waiting", []))),
        waiting_capacity=_whole(_sum(s for s in by_reason if s.labels.get("reason") == "capacity")),
        waiting_deferred=_whole(_sum(s for s in by_reason if s.labels.get("reason") == "deferred")),
        kv_usage=sum(usage) / len(usage) if usage else None,
        kv_tokens=_kv_tokens(found.get("vllm:cache_config_info", [])),
        counters=_counters(found),
        ttft=_buckets(found.get("vllm:time_to_first_token_seconds_bucket", [])),
        itl=_buckets(found.get("vllm:inter_token_latency_seconds_bucket", [])),
    )


def _counters(found: dict[str, list[Sample]]) -> Counters:
    by_source = found.get("vllm:prompt_tokens_by_source_total", [])
    return Counters(
        prompt_computed=_sum(s for s in by_source if s.labels.get("source") == "local_compute"),
        prompt_cached=_sum(s for s in by_source if s.labels.get("source") != "local_compute"),
        generation=_sum(found.get("vllm:generation_tokens_total", [])),
        preemptions=_sum(found.get("vllm:num_preemptions_total", [])),
        cache_queries=_sum(found.get("vllm:prefix_cache_queries_total", [])),
        cache_hits=_sum(found.get("vllm:prefix_cache_hits_total", [])),
        finished=_sum(found.get("vllm:request_success_total", [])),
        prefill_s=_sum(found.get("vllm:request_prefill_time_seconds_sum", [])),
        decode_s=_sum(found.get("vllm:request_decode_time_seconds_sum", [])),
    )


def _sum(samples: Iterable[Sample]) -> float | None:
    values = [s.value for s in samples if math.isfinite(s.value)]
    return sum(values) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _kv_tokens(infos: list[Sample]) -> int | None:
    """vLLM says it in kv_cache_size_tokens (0.3x), before that only as blocks times their size."""
    total = 0
    for info in infos:
        size = _number(info.labels.get("kv_cache_size_tokens"))
        if size is None:
            blocks, block = _number(info.labels.get("num_gpu_blocks")), _number(info.labels.get("block_size"))
            if blocks is None or block is None:
                return None
            size = blocks * block
        total += size
    return total or None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _buckets(samples: list[Sample]) -> Buckets:
    summed: dict[float, float] = {}
    for sample in samples:
        bound = float(sample.labels["le"])
        summed[bound] = summed.get(bound, 0.0) + sample.value
    return tuple(sorted(summed.items()))


def quantile(before: Buckets, after: Buckets, q: float) -> float | None:
    """The q-quantile (0..1) in seconds of what was observed between two scrapes, linear inside a bucket.

    None when nothing was observed, or when the counts went down (a reset: the next window is right again).
    An observation above the last finite bound is given as that bound.
    """
    earlier = dict(before)
    grown = [(bound, count - earlier.get(bound, 0.0)) for bound, count in after]
    if not grown or grown[-1][1] <= 0 or any(count < 0 for _, count in grown):
        return None
    rank = q * grown[-1][1]
    low_bound, low_count = 0.0, 0.0
    for bound, count in grown:
        if count >= rank and count > low_count:
            if math.isinf(bound):
                return low_bound
            return low_bound + (bound - low_bound) * (rank - low_count) / (count - low_count)
        if math.isfinite(bound):
            low_bound = bound
        low_count = count
    return low_bound
