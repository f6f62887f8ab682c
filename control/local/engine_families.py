"""The metric families of vLLM 0.32: names, kinds, help texts, labels and buckets, as recorded (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Family:
    """One family that carries model_name, and engine unless `engineless`."""

    name: str
    """Without the _total that Prometheus appends to counters."""
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label: str = ""
    """One more label."""
    values: tuple[str, ...] = ()
    """The values of `label`, every one exposed from the start."""
    buckets: tuple[float, ...] = ()
    engineless: bool = False


_SECONDS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_TTFT = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
    640,
    2560,
)
_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_STEP = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_PER_GPU = "(for Model Flops Utilization calculations)."


def one_two_five(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50 … up to `most`: vLLM's buckets for token counts."""
    return tuple(m * 10**e for e in range(len(str(most))) for m in (1, 2, 5) if m * 10**e <= most)


def _counter(name: str, text: str, label: str = "", values: tuple[str, ...] = ()) -> Family:
    return Family(f"vllm:{name}", "counter", text, label, values)


def _gauge(name: str, text: str, label: str = "", values: tuple[str, ...] = ()) -> Family:
    return Family(f"vllm:{name}", "gauge", text, label, values)


def _histogram(name: str, text: str, buckets: tuple[float, ...]) -> Family:
    return Family(f"vllm:{name}", "histogram", text, buckets=buckets)


def families(window: int) -> tuple[Family, ...]:
    """In the order of vLLM's /metrics. `window` is max_model_len. The families without a meaning here stay at 0:
    flops and bytes (no GPU), external cache, multimodal cache, rejections (no queue limit)."""
    tokens = one_two_five(window)
    rejected = "Number of admission attempts rejected by a queue limit, by reason."
    return (
        _counter("estimated_flops_per_gpu", f"Estimated number of floating point operations per GPU {_PER_GPU}"),
        _counter("estimated_read_bytes_per_gpu", f"Estimated number of bytes read from memory per GPU {_PER_GPU}"),
        _counter("estimated_write_bytes_per_gpu", f"Estimated number of bytes written to memory per GPU {_PER_GPU}"),
        _gauge("num_requests_running", "Number of requests in model execution batches."),
        _gauge("num_requests_waiting", "Number of requests waiting to be processed."),
        _gauge("num_requests_waiting_by_reason", _WAITING, "reason", ("capacity", "deferred")),
        _gauge("engine_sleep_state", _SLEEP, "sleep_state", ("awake", "weights_offloaded", "discard_all")),
        _gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
        _counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens."),
        _counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."),
        _counter("external_prefix_cache_queries", f"External prefix cache queries {_EXTERNAL} queried tokens."),
        _counter("external_prefix_cache_hits", f"External prefix cache hits {_EXTERNAL} cached tokens."),
        _counter("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items."),
        _counter("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items."),
        _counter("num_preemptions", "Cumulative number of preemption from the engine."),
        _counter("prompt_tokens", "Number of prefill tokens processed."),
        _counter("prompt_tokens_by_source", "Number of prompt tokens by source.", "source", SOURCES),
        _counter("prompt_tokens_cached", "Number of cached prompt tokens (local + external)."),
        _counter("prompt_tokens_cached_by_source", _CACHED, "source", _TIERS),
        _counter("generation_tokens", "Number of generation tokens processed."),
        _counter("request_success", "Count of successfully processed requests.", "finished_reason", FINISHES),
        Family("vllm:admission_rejections", "counter", rejected, "reason", _QUEUES, engineless=True),
        _histogram("request_prompt_tokens", "Number of prefill tokens processed.", tokens),
        _histogram("request_generation_tokens", "Number of generation tokens processed.", tokens),
        _histogram("iteration_tokens_total", "Histogram of number of tokens per engine_step.", _STEP),
        _histogram("request_max_num_generation_tokens", _of("maximum number of requested generation tokens"), tokens),
        _histogram("request_params_n", _of("the n request parameter"), (1, 2, 5, 10, 20)),
        _histogram("request_params_max_tokens", _of("the max_tokens request parameter"), tokens),
        _histogram("time_to_first_token_seconds", _of("time to first token in seconds"), _TTFT),
        _histogram("inter_token_latency_seconds", _of("inter-token latency in seconds"), _ITL),
        _histogram("request_time_per_output_token_seconds", _of("time_per_output_token_seconds per request"), _ITL),
        _histogram("e2e_request_latency_seconds", _of("e2e request latency in seconds"), _SECONDS),
        _histogram("request_queue_time_seconds", _of("time spent in WAITING phase for request"), _SECONDS),
        _histogram("request_inference_time_seconds", _of("time spent in RUNNING phase for request"), _SECONDS),
        _histogram("request_prefill_time_seconds", _of("time spent in PREFILL phase for request"), _SECONDS),
        _histogram("request_decode_time_seconds", _of("time spent in DECODE phase for request"), _SECONDS),
        _histogram("request_num_preemptions", _of("the number of times a request was preempted"), _PREEMPTIONS),
        _histogram("request_prefill_kv_computed_tokens", _of(_COMPUTED), tokens),
    )


def _of(what: str) -> str:
    return f"Histogram of {what}."


SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
FINISHES = ("stop", "length", "abort", "error", "repetition")
_QUEUES = ("max_num_queued_reqs", "max_num_queued_tokens")
_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
_COMPUTED = "new KV tokens computed during prefill (excluding cached tokens)"
_EXTERNAL = "from KV connector cross-instance cache sharing, in terms of number of"
_WAITING = (
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = "
    "deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals "
    "vllm:num_requests_waiting."
)
_SLEEP = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 "
    "means sleep level 1; discard_all = 1 means sleep level 2."
)
_CACHED = (
    "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), disk, "
    "p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to "
    "vllm:prefix_cache_hits + vllm:external_prefix_cache_hits."
)
PARSER_HELP = (
    "Total number of ToolParser invocations. Non-streaming increments once per choice; streaming increments once per "
    "delta."
)
PARSER_MODES = ("streaming", "non_streaming")
PARSER_OUTCOMES = ("tool_call", "no_tool_call")
PARSER_TYPES = ("chat_completions", "responses", "other")


def cache_config(blocks: int, block_size: int, window: int, said: dict[str, str]) -> dict[str, str]:
    """The labels of vllm:cache_config_info. `said` overrides those that a flag set."""
    tokens = blocks * block_size
    labels = dict.fromkeys(_UNSET, "None")
    labels |= {
        "_block_size_resolved": "True",
        "block_size": str(block_size),
        "cache_dtype": "auto",
        "effective_attention_block_size": str(block_size),
        "enable_mamba_shared_prefix_checkpoint": "False",
        "enable_prefix_caching": "True",
        "engine": "0",
        "gpu_memory_utilization": "0.92",
        "is_attention_free": "False",
        "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_max_concurrency": str(tokens / window),
        "kv_cache_size_tokens": str(tokens),
        "kv_offloading_backend": "native",
        "kv_sharing_fast_prefill": "False",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "mamba_ssm_cache_dtype": "auto",
        "num_gpu_blocks": str(blocks),
        "prefix_cache_retention_interval": "0",
        "prefix_caching_hash_algo": "sha256",
        "replayssm_buffer_len": "16",
        "swa_bounded_replay": "True",
        "use_kda_recoverssm": "False",
        "use_replayssm": "False",
        "user_specified_block_size": "False",
    }
    return labels | said


_UNSET = (
    "cache_hit_alignment_tokens",
    "hash_block_size",
    "kv_cache_layout",
    "kv_cache_memory_bytes",
    "kv_offloading_size",
    "mamba_block_size",
    "mamba_page_size_padded",
    "num_cpu_blocks",
    "num_gpu_blocks_override",
    "prefix_match_unit",
    "skip_page_size_padded",
    "sliding_window",
)
