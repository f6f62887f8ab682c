from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import SupervisorUnreachable
from bridge.supervisor import Supervisor

pytestmark = pytest.mark.process


@asynccontextmanager
async def supervisor(answer: Callable[[dict[str, Any]], Awaitable[bytes]]) -> AsyncIterator[tuple[str, list[Any]]]:
    """A unix socket that answers each line; yields its path and the commands it got."""
    got: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            command = json.loads(await reader.readline())
            got.append(command)
            writer.write(await answer(command))
        finally:
            writer.close()

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "b.sock")
        server = await asyncio.start_unix_server(serve, path)
        try:
            yield path, got
        finally:
            server.close()


async def test_the_supervisor_is_asked_one_line_at_a_time() -> None:
    async def answer(command: dict[str, Any]) -> bytes:
        return json.dumps({"ok": True, "status": {"log": ["x" * 200_000]}}).encode() + b"\n"

    async with supervisor(answer) as (path, got):
        status, problem = await Supervisor(path).status(7)
    assert status == {"log": ["x" * 200_000]}
    assert problem is None
    assert got == [{"cmd": "status", "log_after": 7}]


@pytest.mark.parametrize("line", [b"", b"nonsense\n", b"[]\n", b'{"ok":false,"error":"no"}\n', b"cut"])
async def test_a_supervisor_that_answers_badly_is_a_state(line: bytes) -> None:
    async def answer(command: dict[str, Any]) -> bytes:
        return line

    async with supervisor(answer) as (path, _):
        with pytest.raises(SupervisorUnreachable):
            await Supervisor(path).ask({"cmd": "restart"})
        status, problem = await Supervisor(path).status(0)
    assert status is None
    assert problem


async def test_an_answer_without_a_status_is_a_problem() -> None:
    async def answer(command: dict[str, Any]) -> bytes:
        return b'{"ok":true}\n'

    async with supervisor(answer) as (path, _):
        assert await Supervisor(path).status(0) == (None, "the supervisor's answer has no status")


async def test_a_frozen_supervisor_costs_half_a_second() -> None:
    released = asyncio.Event()

    async def never(command: dict[str, Any]) -> bytes:
        await released.wait()
        return b""

    async with supervisor(never) as (path, _):
        async with asyncio.timeout(1.5):
            assert await Supervisor(path).status(0) == (None, "the supervisor did not answer within 0.5 s")
        released.set()
        await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/nonexistent/b.sock", None])
async def test_no_supervisor_is_a_state(path: str | None) -> None:
    with pytest.raises(SupervisorUnreachable):
        await Supervisor(path).ask({"cmd": "status"})
