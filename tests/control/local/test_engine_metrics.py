from __future__ import annotations

import re
from typing import NamedTuple

from control.local.engine_families import cache_config
from control.local.engine_metrics import Gauges, Metrics
from control.local.engine_scheduler import Request
from tests.control.local.simulated import DATA

IDLE = Gauges(0, {"capacity": 0, "deferred": 0}, 0.0, 0)
EXTRA = "vllm:kv_block_"
"""Families that vLLM exposes only with extra flags."""


class Contract(NamedTuple):
    types: dict[str, str]
    helps: dict[str, str]
    labels: dict[str, set[tuple[str, ...]]]
    buckets: dict[str, list[str]]


def contract(text: str) -> Contract:
    """What a reader of /metrics relies on."""
    got = Contract({}, {}, {}, {})
    for line in text.splitlines():
        if EXTRA in line:
            continue
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            got.types[name] = kind
        elif line.startswith("# HELP "):
            name, words = line.removeprefix("# HELP ").split(" ", 1)
            got.helps[name] = words
        elif line:
            name = re.split(r"[{ ]", line)[0]
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            got.labels.setdefault(name, set()).add(tuple(sorted(labels)))
            if "le" in labels:
                edges = got.buckets.setdefault(name, [])
                if labels["le"] not in edges:
                    edges.append(labels["le"])
    return got


def small() -> Metrics:
    return Metrics("tiny-qwen", 8192, cache_config(160, 128, 8192, {}))


def value(text: bytes, name: str, **labels: str) -> float:
    for line in text.decode().splitlines():
        if re.split(r"[{ ]", line)[0] == name and all(f'{key}="{said}"' in line for key, said in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"{name} {labels} is not exposed")


def ended(arrived: float = 10.0, prompt: int = 300, cached: int = 256, generated: int = 5) -> Request:
    request = Request("r", prompt, generated, [], arrived)
    request.cached, request.generated = cached, generated
    request.admitted_at, request.first_token_at, request.last_token_at = arrived + 1, arrived + 3, arrived + 7
    return request


def test_families_types_helps_labels_and_buckets_are_those_of_real_vllm() -> None:
    metrics = small()
    metrics.http.served(
        method="POST", handler="/v1/chat/completions", status=200, took_s=0.1, request_bytes=9, response_bytes=0
    )
    ours = contract(metrics.text(IDLE).decode())
    real = contract((DATA / "metrics_capacity.txt").read_text(encoding="utf-8"))
    assert ours.types == real.types
    assert ours.helps == real.helps
    assert ours.labels == real.labels
    assert ours.buckets == real.buckets


def test_the_sums_that_real_vllm_obeys() -> None:
    for text in ((DATA / "metrics_capacity.txt").read_bytes(), _loaded()):
        by_reason = [value(text, "vllm:num_requests_waiting_by_reason", reason=r) for r in ("capacity", "deferred")]
        assert value(text, "vllm:num_requests_waiting") == sum(by_reason) > 0
        sources = [
            value(text, "vllm:prompt_tokens_by_source_total", source=source)
            for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
        ]
        prompt = value(text, "vllm:prompt_tokens_total")
        generated = value(text, "vllm:generation_tokens_total")
        assert prompt == sum(sources) > 0
        assert value(text, "vllm:prompt_tokens_cached_total") == sources[1] > 0
        assert value(text, "vllm:prefix_cache_queries_total") == prompt
        assert value(text, "vllm:prefix_cache_hits_total") == sources[1]
        assert value(text, "vllm:prompt_tokens_cached_by_source_total", source="device") == sources[1]
        assert value(text, "vllm:iteration_tokens_total_sum") == sources[0] + generated
        first = value(text, "vllm:time_to_first_token_seconds_count")
        assert value(text, "vllm:inter_token_latency_seconds_count") == generated - first > 0
        done = sum(value(text, "vllm:request_success_total", finished_reason=r) for r in ("stop", "length"))
        assert value(text, "vllm:e2e_request_latency_seconds_count") == done > 0


def _loaded() -> bytes:
    metrics = small()
    one = ended(generated=1)
    metrics.admitted(one)
    metrics.stepped([one], 13.0)
    one.generated, one.gap_s = 2, 0.5
    metrics.stepped([one], 13.5)
    metrics.finished(one, "stop", 20, 17.0)
    metrics.stepped([], 18.0)
    return metrics.text(Gauges(1, {"capacity": 2, "deferred": 1}, 0.5, 3))


def test_a_finished_request_is_observed_in_its_phases() -> None:
    metrics = small()
    metrics.finished(ended(), "length", None, 18.0)
    text = metrics.text(IDLE)
    sums = {
        "e2e_request_latency_seconds": 8,
        "request_queue_time_seconds": 1,
        "request_prefill_time_seconds": 2,
        "request_decode_time_seconds": 4,
        "request_inference_time_seconds": 6,
        "request_time_per_output_token_seconds": 1,
        "request_prefill_kv_computed_tokens": 44,
        "request_params_max_tokens": 0,
    }
    assert {name: value(text, f"vllm:{name}_sum") for name in sums} == sums
    assert value(text, "vllm:request_success_total", finished_reason="length") == 1


def test_preemptions_are_a_counter_of_what_the_scheduler_says() -> None:
    metrics = small()
    for total in (2, 2, 5):
        text = metrics.text(Gauges(0, {"capacity": 0, "deferred": 0}, 0.0, total))
        assert value(text, "vllm:num_preemptions_total") == total
