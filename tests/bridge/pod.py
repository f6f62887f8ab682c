"""A scripted supervisor on a unix socket: says the engine's state to who watches, and answers commands."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

Answer = Callable[[dict[str, Any]], bytes | None]
OK = b'{"ok":true}\n'


class Pod:
    """`told` are the lines of those who watch, `got` the commands."""

    def __init__(self, path: str, answer: Answer, state: dict[str, Any]) -> None:
        self.path = path
        self.answer = answer
        self.got: list[dict[str, Any]] = []
        self.told: list[dict[str, int]] = []
        self.watchers: list[asyncio.StreamWriter] = []
        self._state = state

    def says(self, **state: Any) -> None:
        self._state = {**self._state, **state}
        for writer in self.watchers:
            self._write(writer)

    def _write(self, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(self._state).encode() + b"\n")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            command = json.loads(await reader.readline())
            if command == {"cmd": "watch"}:
                self.watchers.append(writer)
                self._write(writer)
                while told := await reader.readline():
                    self.told.append(json.loads(told))
            else:
                self.got.append(command)
                if (line := self.answer(command)) is None:
                    await reader.read()  # a supervisor that hangs, until who asks gives up
                else:
                    writer.write(line)
        except ConnectionError:
            pass
        finally:
            with suppress(ValueError):
                self.watchers.remove(writer)
            writer.close()


def serving(url: str | None, model: str | None = None, **models: list[str]) -> dict[str, Any]:
    return {"state": "serving", "url": url, "model": model, "models": models, "reason": None, "eta_s": None}


def statuses(status: dict[str, Any]) -> Answer:
    return lambda command: json.dumps({"ok": True, "status": status}).encode() + b"\n"


@asynccontextmanager
async def pod(answer: Answer = lambda _: OK, state: dict[str, Any] | None = None) -> AsyncIterator[Pod]:
    with tempfile.TemporaryDirectory() as folder:
        one = Pod(str(Path(folder) / "b.sock"), answer, state or serving(None))
        server = await asyncio.start_unix_server(one.serve, one.path)
        try:
            yield one
        finally:
            server.close()
            for writer in one.watchers:
                writer.close()
