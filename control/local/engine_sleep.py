"""The simulated engine's sleep mode: vLLM's three routes, there only with VLLM_SERVER_DEV_MODE=1, and its times."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from control.local.engine_errors import ApiError, bad_request
from control.local.engine_loop import Engine
from control.local.engine_options import Options

log = logging.getLogger("vllm.APIServer")
core_log = logging.getLogger("vllm.EngineCore")
TAGS = ("weights", "kv_cache")
FIRST = 10
"""The first sleep allocates pinned host memory: 44 s on an H200, where later ones took 1.2 s. Ten times here."""

Handler = Callable[[Any, Request], Awaitable[Response]]


class Sleep:
    """One engine's sleep mode. A call returns when it is done, as vLLM's do."""

    def __init__(self, engine: Engine, options: Options, pause: Callable[[float], Awaitable[None]]) -> None:
        self._engine = engine
        self._enabled, self._seconds, self._first = options.sleep_mode, options.sleep_s, True
        self._tags: set[str] = set()
        self._pause = pause
        self._one_at_a_time = asyncio.Lock()

    async def sleep(self, _service: Any, request: Request) -> Response:
        """POST /sleep?level=1: aborts what runs, forgets the prefix cache, makes no step until it is awake."""
        level = _level(request.query_params.get("level", "1"))
        if not self._enabled:
            raise ApiError(500, "Sleep mode is not enabled: start with --enable-sleep-mode.", "InternalServerError")
        async with self._one_at_a_time:
            if "weights" in self._tags:
                core_log.warning("Executor is already sleeping.")
            else:
                await self._fall_asleep(level)
        return JSONResponse({"status": "sleeping", "level": level})

    async def wake_up(self, _service: Any, request: Request) -> Response:
        """POST /wake_up, or /wake_up?tags=weights and then ?tags=kv_cache."""
        tags = request.query_params.getlist("tags") or None
        log.info("wake up the engine with tags: %s", tags)
        async with self._one_at_a_time:
            if not self._tags:
                core_log.warning("Executor is not sleeping.")
            elif not set(tags or TAGS) <= set(TAGS):
                raise bad_request(f"tags must be of {', '.join(TAGS)}", "tags")
            else:
                await self._wake(set(tags or self._tags))
        return JSONResponse({"status": "sleeping" if self._tags else "awake", "tags": tags})

    async def is_sleeping(self, _service: Any, _request: Request) -> Response:
        return JSONResponse({"is_sleeping": bool(self._tags)})

    async def _fall_asleep(self, level: int) -> None:
        self._engine.pause()
        seconds, self._first = self._seconds * (FIRST if self._first else 1), False
        await self._pause(seconds)
        self._tags = set(TAGS)
        self._engine.metrics.slept(level)
        core_log.info("Sleep mode freed 0.0 GiB memory, 0.0 GiB memory is still in use.")
        core_log.info("It took %.6f seconds to fall asleep.", seconds)

    async def _wake(self, tags: set[str]) -> None:
        await self._pause(self._seconds)
        self._tags -= tags
        core_log.info("It took %.6f seconds to wake up tags %s.", self._seconds, sorted(tags))
        if not self._tags:
            self._engine.metrics.slept(None)
            self._engine.resume()


def routes(
    engine: Engine, options: Options, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> list[tuple[str, Handler, list[str]]]:
    """What vLLM adds with VLLM_SERVER_DEV_MODE=1."""
    if not options.dev_mode:
        return []
    sleep = Sleep(engine, options, pause)
    return [
        ("/sleep", sleep.sleep, ["POST"]),
        ("/wake_up", sleep.wake_up, ["POST"]),
        ("/is_sleeping", sleep.is_sleeping, ["GET"]),
    ]


def _level(text: str) -> int:
    if text not in ("0", "1", "2"):
        raise bad_request(f"level must be 0, 1 or 2, not {text!r}", "level")
    return int(text)
