from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import EngineBroken, EngineUnreachable, OutputTooLong, SupervisorUnreachable
from bridge.upstream import Supervisor, Upstream
from tests.bridge.chunks import text_answer
from tests.bridge.running import METRICS, Call, engine, well

pytestmark = pytest.mark.process

REQUEST = {"model": "m", "messages": [], "max_tokens": 32000}


async def mute(call: Call) -> None:
    await call.left()


async def unused(call: Call) -> None:
    raise AssertionError(call.path)


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


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens=32000 cannot be greater than max_model_len=8192. Please request fewer output tokens.",
        "This model's maximum context length is 8192 tokens. However, you requested 32000 output tokens and your prompt"
        " contains at least 50 input tokens",
    ],
)
async def test_when_only_max_tokens_overflows_the_engine_is_asked_for_what_is_left(message: str) -> None:
    async def small(call: Call) -> None:
        if "max_tokens" in call.body:
            await call.answer(400, {"error": {"message": message, "code": 400}})
        else:
            await call.stream(text_answer("x"))

    async with engine(small) as one, Upstream(one.url) as upstream:
        async with upstream.chat(REQUEST) as stream:
            assert stream.status == 200
        assert len(one.calls) == 2


async def test_it_is_asked_again_once_only() -> None:
    async def never(call: Call) -> None:
        await call.answer(400, {"error": {"message": "max_tokens=1 cannot be greater than max_model_len=0"}})

    async with engine(never) as one, Upstream(one.url) as upstream:
        with pytest.raises(OutputTooLong):
            async with upstream.chat(REQUEST):
                pass
        assert len(one.calls) == 2


async def test_nobody_listens() -> None:
    async with engine(unused) as one:
        url = one.url
    async with Upstream(url) as upstream:
        with pytest.raises(EngineUnreachable):
            async with upstream.chat(REQUEST):
                pass
        probe = await upstream.probe()
        assert (probe.reachable, probe.metrics, probe.models) == (False, None, ())
        assert probe.error


async def test_a_probe_of_a_healthy_engine() -> None:
    async with engine(unused, well) as one, Upstream(one.url) as upstream:
        assert upstream.max_model_len is None
        probe = await upstream.probe()
        assert (probe.reachable, probe.error, probe.version) == (True, None, "0.33.0")
        assert (probe.models, probe.max_model_len) == (("m", "alias"), 8192)
        assert probe.metrics is not None
        assert "vllm:num_requests_running 1" in probe.metrics
        assert upstream.max_model_len == 8192


async def test_a_probe_of_a_frozen_engine_is_bounded() -> None:
    async with engine(unused, mute) as one, Upstream(one.url) as upstream:
        async with asyncio.timeout(2.0):
            probe = await upstream.probe()
        assert not probe.reachable
        assert probe.error == "no answer within 0.8 s"
        assert 0.7 < probe.elapsed_s < 1.5
        await asyncio.wait_for(one.looks[0].gone.wait(), 1.0)


async def test_an_engine_without_names_is_still_reachable() -> None:
    async def bare(call: Call) -> None:
        await call.answer(*((200, METRICS) if call.path == "/metrics" else (404, {"detail": "Not Found"})))

    async with engine(unused, bare) as one, Upstream(one.url) as upstream:
        probe = await upstream.probe()
        assert (probe.reachable, probe.version, probe.models) == (True, None, ())


async def test_tokens_are_counted() -> None:
    async def counts(call: Call) -> None:
        assert call.path == "/tokenize"
        await call.answer(200, {"count": 304, "max_model_len": 8192, "tokens": [1] * 304})

    async with engine(counts) as one, Upstream(one.url) as upstream:
        assert await upstream.count({"model": "m"}) == 304
        one.script = lambda call: call.answer(200, {"nothing": 1})
        with pytest.raises(EngineBroken):
            await upstream.count({"model": "m"})


@pytest.mark.parametrize("whole", [True, False], ids=["read", "left unread"])
async def test_an_exchange_keeps_no_connection(whole: bool) -> None:
    async with engine(lambda call: call.stream(text_answer("x"))) as one, Upstream(one.url) as upstream:
        async with upstream.chat(REQUEST) as stream:
            body = b"".join([chunk async for chunk in stream.chunks]) if whole else await anext(stream.chunks)
        assert b"data: " in body
        assert await asyncio.wait_for(one.calls[0].reader.read(), 1.0) == b""


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


async def test_a_frozen_supervisor_costs_one_second() -> None:
    released = asyncio.Event()

    async def never(command: dict[str, Any]) -> bytes:
        await released.wait()
        return b""

    async with supervisor(never) as (path, _):
        async with asyncio.timeout(1.5):
            assert await Supervisor(path).status(0) == (None, "the supervisor did not answer within 1.0 s")
        released.set()
        await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/nonexistent/b.sock", None])
async def test_no_supervisor_is_a_state(path: str | None) -> None:
    with pytest.raises(SupervisorUnreachable):
        await Supervisor(path).ask({"cmd": "status"})
