"""The only file that talks to the pod's supervisor: commands to its unix socket, and the engine's state from it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

import msgspec

from bridge.errors import BridgeError, EngineUnreachable, SupervisorUnreachable

ANSWER_S = 1.0  # for what only asks
COMMAND_S = 5.0  # for what changes something
MAX_LINE = 16 * 1024 * 1024  # bytes of one answer: 500 log lines fit many times
TELL_S = 0.5  # between two lines of ours on the watched connection
AGAIN_S = 0.5  # between two attempts; the socket is local, so there is nobody to spare
DWELL_S = 60.0  # a swap that may not be yet is waited for this long, and refused beyond
_BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, msgspec.DecodeError)


# What the supervisor says of the engine. serving: ask `url`. changing: wait. down: nothing to wait for.
@dataclass(frozen=True, slots=True)
class EngineState:
    state: Literal["serving", "changing", "down"]
    url: str | None
    model: str | None = None  # key of `models`
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names of each; the engine's own first
    reason: str | None = None


# The supervisor's no; `wait_s` where it would say yes later.
class Refused(BridgeError, type="conflict_error", status=409):
    def __init__(self, message: str, wait_s: float | None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


# `engine` is what is known of the engine now; without a supervisor (no path) it stays as it is given.
class Supervisor:
    # `load` is of (turns that hold an engine's stream, client connections).
    def __init__(self, path: str | None, engine: EngineState, load: Callable[[], tuple[int, int]]) -> None:
        self.engine, self._path, self._load = engine, path, load
        self._change = asyncio.Event()

    # The answer, which said ok. Raises SupervisorUnreachable, Refused.
    async def ask(self, command: Mapping[str, Any], within_s: float = ANSWER_S) -> dict[str, Any]:
        if self._path is None:
            raise SupervisorUnreachable("this bridge runs without a supervisor")
        try:
            async with asyncio.timeout(within_s):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                with closing(writer):
                    writer.write(msgspec.json.encode(command) + b"\n")
                    answer = msgspec.json.decode(await reader.readuntil(b"\n"), type=dict[str, Any])
        except _BROKEN as cause:
            why = str(cause) or type(cause).__name__
            raise SupervisorUnreachable(f"no answer from the supervisor within {within_s} s: {why}") from cause
        if answer.get("ok") is not True:
            raise Refused(f"the supervisor refused: {answer.get('error') or 'no reason given'}", answer.get("wait_s"))
        return answer

    # Its status, or why there is none.
    async def status(self, log_after: int) -> tuple[dict[str, Any] | None, str | None]:
        try:
            status = (await self.ask({"cmd": "status", "log_after": log_after})).get("status")
        except BridgeError as error:
            return None, error.message
        return (status, None) if isinstance(status, dict) else (None, "the supervisor's answer has no status")

    # The engine's state once it serves. Raises EngineUnreachable when it is down, or at the moment `until`.
    async def serving(self, until: float) -> EngineState:
        while (engine := self.engine).state != "serving":
            if engine.state == "down" or monotonic() >= until:
                raise EngineUnreachable(f"the engine is {engine.state}: {engine.reason or 'no reason given'}")
            await _by(until, self._change)
        return engine

    # Asks for that model, once; returns when something changed, or when it is time to ask again. Raises
    # EngineUnreachable when it will not be loaded soon.
    async def swap(self, model: str, until: float) -> None:
        change, wait_s = self._change, COMMAND_S
        try:
            await self.ask({"cmd": "swap", "model": model}, COMMAND_S)
        except Refused as refused:
            if refused.wait_s is None or refused.wait_s > min(DWELL_S, until - monotonic()):
                raise EngineUnreachable(f"the model {model} is not loaded; {refused.message}") from refused
            wait_s = refused.wait_s
        except SupervisorUnreachable:
            if monotonic() >= until:
                raise
            wait_s = AGAIN_S
        await _by(monotonic() + wait_s, change)

    # Keeps `engine` true for as long as this runs. While the supervisor is away, what it said last holds.
    async def follow(self) -> None:
        while self._path is not None:
            with suppress(*_BROKEN):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                with closing(writer):
                    writer.write(b'{"cmd":"watch"}\n')
                    await self._watch(reader, writer)
            await asyncio.sleep(AGAIN_S)

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = None
        while True:
            if (now := self._load()) != told:
                writer.write(msgspec.json.encode({"live": now[0], "clients": now[1]}) + b"\n")
                told = now
            with suppress(TimeoutError):
                async with asyncio.timeout(TELL_S):  # what came of a line until then stays in the reader
                    line = await reader.readuntil(b"\n")
                    self.engine = msgspec.json.decode(line, type=EngineState)
                    self._change.set()
                    self._change = asyncio.Event()


async def _by(moment: float, change: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(moment - monotonic()):
            await change.wait()
