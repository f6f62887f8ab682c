"""The command line of the simulated engine: vLLM's flags that have a meaning here, and its own `--sim-*` (pure)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

VERSION = "0.32.0+simulated"
BYTES_PER_TOKEN = 98_304
"""KV bytes of one token, measured: 24.0 GiB for 262,144 tokens (Qwen3-30B-A3B's shape, vLLM 0.25 on one H200)."""


@dataclass(frozen=True, slots=True)
class Options:
    """One engine's settings. Times in seconds, sizes in tokens unless they say otherwise."""

    model: str
    host: str
    port: int
    names: tuple[str, ...]
    window: int
    sequences: int
    batched_tokens: int
    blocks: int
    block_size: int
    prefix_caching: bool
    prompt_details: bool
    load_tracking: bool
    access_log: bool
    images: int
    prefill_tokens_per_s: float
    decode_base_s: float
    decode_s_per_token: float
    chars_per_token: int
    load_s: float
    seed: int
    sleep_mode: bool
    sleep_s: float
    dev_mode: bool
    cache_config: dict[str, str] = field(default_factory=dict)
    """Labels of vllm:cache_config_info that a flag set."""
    ignored: tuple[str, ...] = ()
    """vLLM's flags that mean nothing to a simulator, as they were given."""

    @property
    def kv_tokens(self) -> int:
        return self.blocks * self.block_size

    @property
    def longest(self) -> int:
        """The longest sequence that fits in the cache alone; vLLM keeps one block for itself."""
        return (self.blocks - 1) * self.block_size


def parse(argv: Sequence[str], *, dev_mode: bool = False) -> Options:
    """`serve MODEL …` -> Options. Exits as argparse does: 2 on nonsense, 0 on --help and --version.

    dev_mode: VLLM_SERVER_DEV_MODE=1, which adds the routes to sleep and to wake.

    The --sim flags may stand before `serve`: they belong to the program that a pod is given, what follows is vLLM's.
    """
    own, words = _split(argv)
    parsed, extra = _parser().parse_known_args([*words, *own])
    if parsed.max_model_len < 1 or parsed.block_size < 1 or parsed.sim_chars_per_token < 1:
        _parser().error("--max-model-len, --block-size and --sim-chars-per-token must be at least 1")
    blocks = parsed.num_gpu_blocks_override or parsed.sim_kv_tokens // parsed.block_size
    if blocks < 2:
        _parser().error("the KV cache needs at least 2 blocks")
    return Options(
        model=parsed.model,
        host=parsed.host,
        port=parsed.port,
        names=tuple(parsed.served_model_name or [parsed.model]),
        window=parsed.max_model_len,
        sequences=parsed.max_num_seqs,
        batched_tokens=parsed.max_num_batched_tokens,
        blocks=blocks,
        block_size=parsed.block_size,
        prefix_caching=parsed.enable_prefix_caching,
        prompt_details=parsed.enable_prompt_tokens_details,
        load_tracking=parsed.enable_server_load_tracking,
        access_log=not parsed.disable_uvicorn_access_log,
        images=parsed.limit_mm_per_prompt,
        prefill_tokens_per_s=parsed.sim_prefill_tokens_per_s,
        decode_base_s=parsed.sim_decode_base_ms / 1e3,
        decode_s_per_token=parsed.sim_decode_us_per_token / 1e6,
        chars_per_token=parsed.sim_chars_per_token,
        load_s=parsed.sim_load_seconds,
        seed=parsed.sim_seed,
        sleep_mode=parsed.enable_sleep_mode,
        sleep_s=parsed.sim_sleep_seconds,
        dev_mode=dev_mode,
        cache_config=_cache_config(parsed),
        ignored=tuple(_flags(extra)),
    )


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """(what stands before `serve`, `serve` and the rest), where the former are --sim flags."""
    if argv and argv[0].startswith("--sim-") and "serve" in argv:
        at = list(argv).index("serve")
        return list(argv[:at]), list(argv[at:])
    return [], list(argv)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vllm", description="A simulated vLLM engine: real scheduling, no model.", allow_abbrev=False
    )
    parser.add_argument("-v", "--version", action="version", version=VERSION)
    serve = parser.add_subparsers(required=True).add_parser("serve", allow_abbrev=False)
    serve.add_argument("model")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--served-model-name", nargs="+")
    serve.add_argument("--max-model-len", type=_window, default=262_144)
    serve.add_argument("--max-num-seqs", type=_positive, default=256)
    serve.add_argument("--max-num-batched-tokens", type=_positive, default=8192)
    serve.add_argument("--num-gpu-blocks-override", type=_positive)
    serve.add_argument("--block-size", type=int, default=16)
    serve.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    serve.add_argument("--enable-prompt-tokens-details", action=argparse.BooleanOptionalAction, default=False)
    serve.add_argument("--enable-server-load-tracking", action=argparse.BooleanOptionalAction, default=False)
    serve.add_argument("--enable-sleep-mode", action=argparse.BooleanOptionalAction, default=False)
    serve.add_argument("--disable-uvicorn-access-log", action=argparse.BooleanOptionalAction, default=False)
    serve.add_argument("--limit-mm-per-prompt", type=_images, default=0)
    serve.add_argument("--gpu-memory-utilization", default=None)
    serve.add_argument("--kv-cache-dtype", default=None)
    serve.add_argument("--kv-cache-memory-bytes", default=None)
    # Tool calls and thinking are parsed whatever the parser's name: the simulated model writes only one dialect.
    serve.add_argument("--tool-call-parser")
    serve.add_argument("--reasoning-parser")
    serve.add_argument("--enable-auto-tool-choice", action=argparse.BooleanOptionalAction)
    serve.add_argument("--sim-prefill-tokens-per-s", type=_rate, default=11_200.0)
    serve.add_argument("--sim-decode-base-ms", type=float, default=4.936)
    serve.add_argument("--sim-decode-us-per-token", type=float, default=0.01274)
    serve.add_argument("--sim-kv-tokens", type=_positive, default=617_633)
    serve.add_argument("--sim-chars-per-token", type=int, default=4)
    serve.add_argument("--sim-load-seconds", type=float, default=0.5)
    serve.add_argument("--sim-sleep-seconds", type=float, default=0.3)
    serve.add_argument("--sim-seed", type=int, default=0)
    return parser


def _positive(text: str) -> int:
    """A whole number of at least 1, in vLLM's notation: 8k is 8000, 8K is 8192, 1.5m, 1M …"""
    units = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    value = int(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _window(text: str) -> int:
    return 262_144 if text in ("auto", "-1") else _positive(text)


def _rate(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return value


def _images(text: str) -> int:
    """`{"image": 4}` or `image=4`: images per prompt."""
    if text.lstrip().startswith("{"):
        limits = json.loads(text)
        image = limits.get("image", 0)
        return int(image["count"] if isinstance(image, dict) else image)
    pairs = dict(pair.split("=", 1) for pair in text.split(","))
    return int(pairs.get("image", "0"))


def _cache_config(parsed: argparse.Namespace) -> dict[str, str]:
    said = {
        "enable_prefix_caching": str(parsed.enable_prefix_caching),
        "num_gpu_blocks_override": str(parsed.num_gpu_blocks_override),
        "kv_cache_memory_bytes": str(parsed.kv_cache_memory_bytes),
    }
    if parsed.gpu_memory_utilization is not None:
        said["gpu_memory_utilization"] = parsed.gpu_memory_utilization
    if parsed.kv_cache_dtype is not None:
        said["cache_dtype"] = parsed.kv_cache_dtype
    return said


def _flags(extra: Sequence[str]) -> list[str]:
    """Flags with their values, one string each."""
    flags: list[str] = []
    for word in extra:
        if word.startswith("-") or not flags:
            flags.append(word)
        else:
            flags[-1] += f" {word}"
    return flags
