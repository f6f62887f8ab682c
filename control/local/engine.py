"""The simulated engine's process: a drop-in for the `vllm` executable. Owns its socket, its clock, its log and signals.

python -P -m control.local.engine serve MODEL --host 127.0.0.1 --port 8000 …
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType

import uvicorn

from control.local.engine_families import cache_config
from control.local.engine_kv import KvCache
from control.local.engine_log import Tally, VllmFormatter, boot, statistics
from control.local.engine_loop import Engine, core_log, log
from control.local.engine_metrics import Metrics
from control.local.engine_options import VERSION, Options, parse
from control.local.engine_request import Model
from control.local.engine_routes import Service, app
from control.local.engine_scheduler import Limits, StepLaw
from control.local.engine_tokens import Tokens

_STATISTICS_S = 10.0
_DYING_S = 0.3
"""How long a dead engine still answers, with 500: about as long as vLLM's API server was seen to."""


class Server(uvicorn.Server):
    """Ends its streams on a signal instead of waiting for them, and then exits with 0 instead of by the signal."""

    def __init__(self, config: uvicorn.Config, engine: Engine) -> None:
        super().__init__(config)
        self._engine = engine

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._engine.close()
        await super().shutdown(sockets)


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until a signal (0), until a fault kills it or because it cannot start (1)."""
    dev_mode = os.environ.get("VLLM_SERVER_DEV_MODE", "0") == "1"
    options = parse(sys.argv[1:] if argv is None else argv, dev_mode=dev_mode)
    _log_to_stderr()
    log.warning(
        "Simulated vLLM engine, version %s: no GPU and no model. Waits, preemptions and cache hits follow from load; "
        "what it says is filler or comes from a script.",
        VERSION,
    )
    for flag in options.ignored:
        log.warning("Ignored, the simulated engine has no such part: %s", flag)
    try:
        listener = _bound(options.host, options.port)
    except OSError as error:
        log.error("OSError: %s: cannot bind %s:%d", error, options.host, options.port)
        return 1
    with listener:
        return asyncio.run(_serve(options, listener)) if _load(options) else 1


def build(options: Options) -> Service:
    """Everything but the socket."""
    config = cache_config(options.blocks, options.block_size, options.window, options.cache_config)
    tokens = Tokens(options.chars_per_token)
    engine = Engine(
        Limits(options.sequences, options.batched_tokens, options.block_size),
        KvCache(options.blocks, prefix_caching=options.prefix_caching),
        StepLaw(options.prefill_tokens_per_s, options.decode_base_s, options.decode_s_per_token),
        tokens,
        Metrics(options.names[0], options.window, config),
        time.monotonic,
    )
    model = Model(options.names, options.window, tokens, options.seed, options.images)
    return Service(options, model, engine, time.time, time.monotonic)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VllmFormatter(os.getpid()))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _bound(host: str, port: int) -> socket.socket:
    """Bound and not listening: the port is ours, and refuses connections, until the engine is ready. OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _load(options: Options) -> bool:
    """vLLM's parts of a start, in --sim-load-seconds. False when the window does not fit in the KV cache."""
    for line in boot(options):
        (core_log if line.core else log).log(line.level, "%s", line.text)
        time.sleep(line.takes_s)
    return options.window <= options.longest


async def _serve(options: Options, listener: socket.socket) -> int:
    service = build(options)
    engine = service.engine
    config = uvicorn.Config(app(service), log_config=None, access_log=options.access_log, lifespan="on")
    server = Server(config, engine)
    log.info("Starting vLLM server on http://%s:%d", options.host, options.port)
    async with asyncio.TaskGroup() as group:
        work = [group.create_task(engine.run()), group.create_task(_report(engine))]
        dying = group.create_task(_stop_when_dead(engine, server))
        await server.serve(sockets=[listener])
        for task in (*work, dying):
            task.cancel()
    return 1 if engine.dead else 0


async def _stop_when_dead(engine: Engine, server: Server) -> None:
    await engine.closed.wait()
    if engine.dead:
        await asyncio.sleep(_DYING_S)
        server.should_exit = True


async def _report(engine: Engine) -> None:
    """vLLM's statistics line, left out while nothing happens, as vLLM does."""
    before = Tally(time.monotonic(), 0, 0)
    while True:
        await asyncio.sleep(_STATISTICS_S)
        after = Tally(time.monotonic(), engine.prompt_computed, engine.generated)
        gauges = engine.gauges()
        waiting = sum(gauges.waiting.values())
        if gauges.running or waiting or (after.prompt, after.generated) != (before.prompt, before.generated):
            line = statistics(
                before,
                after,
                running=gauges.running,
                waiting=waiting,
                kv_usage=gauges.kv_usage,
                hit_rate=engine.hit_rate(),
            )
            log.info(line)
        before = after


if __name__ == "__main__":
    sys.exit(main())
