"""What the tests of the simulated engine share: a clock that only sleep moves, small engines, recorded vLLM answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control.local.engine_families import cache_config
from control.local.engine_kv import KvCache
from control.local.engine_loop import Engine
from control.local.engine_metrics import Metrics
from control.local.engine_options import Options, parse
from control.local.engine_request import Model
from control.local.engine_routes import Service
from control.local.engine_scheduler import Limits, StepLaw
from control.local.engine_tokens import Tokens

DATA = Path(__file__).parents[2] / "data" / "vllm"


@dataclass(slots=True)
class Clock:
    """Time that passes only while somebody sleeps on it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(8):  # let the streams that were woken by the last step write
            await asyncio.sleep(0)


def options(*flags: str) -> Options:
    return parse(["serve", "tiny", "--served-model-name", "tiny-qwen", "tiny-alias", *flags])


def service(clock: Clock, *flags: str) -> Service:
    """A whole engine on `clock`; by default with a small window, a small cache and usage details."""
    small = ("--max-model-len", "8192", "--num-gpu-blocks-override", "1024", "--enable-prompt-tokens-details")
    chosen = options(*small, "--enable-server-load-tracking", *flags)
    config = cache_config(chosen.blocks, chosen.block_size, chosen.window, chosen.cache_config)
    tokens = Tokens(chosen.chars_per_token)
    engine = Engine(
        Limits(chosen.sequences, chosen.batched_tokens, chosen.block_size),
        KvCache(chosen.blocks, prefix_caching=chosen.prefix_caching),
        StepLaw(chosen.prefill_tokens_per_s, chosen.decode_base_s, chosen.decode_s_per_token),
        tokens,
        Metrics(chosen.names[0], chosen.window, config),
        clock,
        clock.sleep,
    )
    model = Model(chosen.names, chosen.window, tokens, chosen.seed, chosen.images)
    return Service(chosen, model, engine, clock, clock)


def scripted(script: object, text: str = "go") -> list[dict[str, Any]]:
    """A conversation of one user message with a marker."""
    return [{"role": "user", "content": f"{text} [[sim {json.dumps(script)}]]"}]


def recorded(name: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of one recorded answer of vLLM 0.32."""
    head, _, body = (DATA / "sse" / f"{name}.txt").read_text(encoding="utf-8").partition("\n\n")
    lines = head.splitlines()
    status = next(int(line.split()[2]) for line in lines if line.startswith("### STATUS"))
    headers = dict(line.split(": ", 1) for line in lines if not line.startswith("#"))
    return status, headers, body


def recorded_request(name: str) -> dict[str, Any]:
    """The request that a recorded answer answers."""
    for line in (DATA / "sse" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("### REQUEST "):
            body = json.loads(line.removeprefix("### REQUEST "))
            assert isinstance(body, dict)
            return body
    raise AssertionError(name)


def chunks(stream: str) -> list[Any]:
    """The records of an SSE stream, parsed; [DONE] stays a string."""
    records = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    return [record if record == "[DONE]" else json.loads(record) for record in records]


def shape(value: Any) -> Any:
    """Keys in order and kinds of values: what a reader of the wire relies on."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__
