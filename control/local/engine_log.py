"""The simulated engine's log: how a line looks, what a start says, and the statistics of every ten seconds (pure)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from control.local.engine_options import BYTES_PER_TOKEN, VERSION, Options

_GIB = 1 << 30


class VllmFormatter(logging.Formatter):
    """`(APIServer pid=1) INFO 11-29 12:54:32 [engine.py:1] …`; uvicorn's lines as vLLM passes them through."""

    def __init__(self, pid: int) -> None:
        super().__init__(datefmt="%m-%d %H:%M:%S")
        self._pid = pid

    def format(self, record: logging.LogRecord) -> str:
        role = record.name.removeprefix("vllm.") if record.name.startswith("vllm.") else "APIServer"
        process = f"({role} pid={self._pid})"
        if record.name.startswith("uvicorn"):
            prefix = f"{process} {record.levelname + ':':<9} "
        else:
            when = self.formatTime(record, self.datefmt)
            prefix = f"{process} {record.levelname} {when} [{record.filename}:{record.lineno}] "
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return "\n".join(prefix + line for line in text.split("\n"))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a start, by EngineCore or by the API server, and the seconds that go by after it."""

    text: str
    takes_s: float = 0.0
    core: bool = True
    level: int = logging.INFO


def boot(options: Options) -> Iterator[Line]:
    """A start in vLLM's words, in options.load_s; it ends early where the window does not fit in the KV cache."""
    part = options.load_s / 8
    yield Line("Resolved architecture: SimulatedForCausalLM", core=False)
    yield Line(f"Using max model len {options.window}", core=False)
    yield Line(f"Chunked prefill is enabled with max_num_batched_tokens={options.batched_tokens}.", part, core=False)
    yield Line(f"Initializing a V1 LLM engine (v{VERSION}) with config: model={options.model!r}", part)
    yield Line(f"Starting to load model {options.model}...")
    yield Line("Using SIMULATED attention backend out of potential backends: ['SIMULATED'].", part)
    yield Line(f"Loading weights took {part:.2f} seconds")
    yield Line(f"Model loading took 0.0 GiB memory and {part:.6f} seconds")
    yield Line(f"Dynamo bytecode transform time: {part:.2f} s", part)
    yield Line(f"torch.compile took {part:.2f} s in total", part)
    yield Line(f"Initial profiling/warmup run took {part:.2f} s")
    yield Line(f"Available KV cache memory: {options.kv_tokens * BYTES_PER_TOKEN / _GIB:.2f} GiB")
    if options.window > options.longest:
        yield Line(_too_small(options), level=logging.ERROR)
        died = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        yield Line(died, core=False, level=logging.ERROR)
        return
    concurrency = options.kv_tokens / options.window
    yield Line(f"GPU KV cache size: {options.kv_tokens:,} tokens")
    yield Line(f"Maximum concurrency for {options.window:,} tokens per request: {concurrency:.2f}x", part)
    yield Line("Capturing CUDA graphs (decode, FULL): 100%", part)
    yield Line(f"Graph capturing finished in {part:.0f} secs, took 0.00 GiB", part)
    yield Line(f"init engine (profile, create kv cache, warmup model) took {5 * part:.2f} s")


def _too_small(options: Options) -> str:
    """vLLM's words, its unbalanced parenthesis included, for a cache that cannot hold one full window."""
    needed = options.window * BYTES_PER_TOKEN / _GIB
    has = options.longest * BYTES_PER_TOKEN / _GIB
    return (
        f"ValueError: To serve at least one request with the model's max seq len ({options.window}), ({needed:.1f} GiB "
        f"KV cache is needed, which is larger than the available KV cache memory ({has:.2f} GiB). Based on the "
        f"available memory, the estimated maximum model length is {options.longest}. Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing `max_model_len` "
        "when initializing the engine."
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Counters at one moment: what two statistics lines differ by."""

    at: float
    prompt: int
    """Prompt tokens computed, cached ones left out."""
    generated: int


def statistics(before: Tally, after: Tally, *, running: int, waiting: int, kv_usage: float, hit_rate: float) -> str:
    """vLLM's line of every ten seconds."""
    took = max(after.at - before.at, 1e-9)
    return (
        f"Engine 000: Avg prompt throughput: {(after.prompt - before.prompt) / took:.1f} tokens/s, "
        f"Avg generation throughput: {(after.generated - before.generated) / took:.1f} tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {kv_usage * 100:.1f}%, "
        f"Prefix cache hit rate: {hit_rate * 100:.1f}%"
    )
