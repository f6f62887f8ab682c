from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.bridge.chunks import DONE, chunk, events, record, terminals, text_answer, usage
from tests.bridge.running import ASK, Bridge, Call, bridge, engine, until, until_async

pytestmark = pytest.mark.process


async def silent(call: Call) -> None:
    await call.left()


async def prefilling(call: Call) -> None:
    await call.head()
    await call.left()


async def decoding(call: Call) -> None:
    await call.head()
    await call.say(chunk({"content": "x"}, usage=usage(50, 1)))
    await call.left()


async def pouring(call: Call) -> None:
    """More than any socket buffer holds, so that the bridge is mid-write when the client leaves."""
    await call.head()
    while True:
        await call.say(chunk({"content": "x" * 10_000}))


async def idle(one: Bridge) -> None:
    async def free() -> bool:
        return await one.connections() == (0, 0, 0)

    await until_async(free, within_s=2.0)


async def start(one: Bridge, path: str, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request on a socket of our own, so that leaving is one close."""
    url = one.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    request = one.http.build_request("POST", path, json=body)
    head = b"".join(b"%b: %b\r\n" % pair for pair in request.headers.raw)
    writer.write(b"POST %b HTTP/1.1\r\n%b\r\n%b" % (path.encode(), head, request.content))
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("script", [silent, prefilling, decoding], ids=lambda script: script.__name__)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "one message"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_a_client_that_leaves_frees_its_upstream_at_once(
    script: Callable[[Call], Awaitable[None]], stream: bool, path: str
) -> None:
    async with engine(script) as upstream, bridge(upstream.url) as one:
        _, writer = await start(one, path, {**ASK, "stream": stream})
        await until(lambda: len(upstream.calls) == 1)
        call = upstream.calls[0]
        assert (await one.connections())[:2] == (1, 1)
        writer.close()
        await asyncio.wait_for(call.gone.wait(), 1.0)
        await idle(one)
        report = await one.report()
        assert report["totals"]["client_gone"] == 1
        assert report["turns"] == []
        assert report["agents"][0]["stop"] == "client_gone"


async def test_a_client_that_leaves_while_tokens_are_counted_frees_the_engine() -> None:
    async with engine(silent) as upstream, bridge(upstream.url) as one:
        _, writer = await start(one, "/v1/messages/count_tokens", ASK)
        await until(lambda: bool(upstream.calls))
        writer.close()
        await asyncio.wait_for(upstream.calls[0].gone.wait(), 1.0)


async def test_a_client_that_does_not_read_and_leaves_frees_its_upstream() -> None:
    async with engine(pouring) as upstream, bridge(upstream.url) as one:
        _, writer = await start(one, "/v1/messages", {**ASK, "stream": True})
        await until(lambda: bool(upstream.calls))
        await asyncio.sleep(0.2)
        writer.transport.abort()
        await idle(one)


async def test_two_hundred_clients_that_leave_at_once_leave_nothing_behind() -> None:
    async with engine(silent) as upstream, bridge(upstream.url) as one:
        writers = [(await start(one, "/v1/messages", {**ASK, "stream": True}))[1] for _ in range(200)]
        await until(lambda: len(upstream.calls) == 200, within_s=20)
        for writer in writers:
            writer.transport.abort()
        await until(lambda: all(call.gone.is_set() for call in upstream.calls), within_s=10)
        await idle(one)
        upstream.script = lambda call: call.stream(text_answer("fine"))
        answer = await one.http.post("/v1/messages", json=ASK)
        assert answer.json()["content"] == [{"type": "text", "text": "fine"}]


async def test_silence_is_filled_with_pings_before_and_between_tokens() -> None:
    async def slow(call: Call) -> None:
        await asyncio.sleep(0.25)
        await call.head()
        await call.say(chunk({"content": "a"}))
        await asyncio.sleep(0.25)
        await call.say(chunk({"content": "b"}) + chunk(finish="stop") + DONE)
        await call.end()

    async with engine(slow) as upstream, bridge(upstream.url, ping_seconds=0.1) as one:
        answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
        names = [name for name, _ in events(answer.content)]
        start_at = names.index("message_start")
        assert names[:start_at]
        assert set(names[:start_at]) == {"ping"}
        assert "ping" in names[start_at:]
        assert names[-1] == "message_stop"
        assert (await one.report())["totals"]["pings"] == names.count("ping")


async def test_an_error_after_pings_is_the_streams_one_terminal_event() -> None:
    async def late(call: Call) -> None:
        await asyncio.sleep(0.15)
        await call.answer(503, {"error": {"message": "full", "code": 503}})

    async with engine(late) as upstream, bridge(upstream.url, ping_seconds=0.05) as one:
        answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
        assert answer.status_code == 200
        assert terminals(answer.content) == 1
        assert events(answer.content)[-1][1]["error"] == {"type": "overloaded_error", "message": "full"}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "one message"])
@pytest.mark.parametrize(
    ("status", "message", "expected", "kind"),
    [
        (503, "busy", 529, "overloaded_error"),
        (400, "temperature must be non-negative", 400, "invalid_request_error"),
        (404, "no such model", 404, "not_found_error"),
        (500, "EngineCore encountered an issue", 500, "api_error"),
    ],
)
async def test_before_the_first_byte_the_status_is_real(
    stream: bool, status: int, message: str, expected: int, kind: str
) -> None:
    async def refuse(call: Call) -> None:
        await call.answer(status, {"error": {"message": message, "code": status}})

    async with engine(refuse) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post("/v1/messages", json={**ASK, "stream": stream})
        assert answer.status_code == expected
        assert answer.json()["error"] == {"type": kind, "message": message}
        assert answer.headers["request-id"] == answer.json()["request_id"]
        assert ("retry-after" in answer.headers) == (expected == 529)
        assert (await one.report())["totals"]["failed"] == 1


async def cut_before_the_head(call: Call) -> None:
    return


async def cut_in_the_middle(call: Call) -> None:
    await call.head()
    await call.say(chunk({"content": "par"}))
    call.writer.transport.abort()


async def clean_end_too_early(call: Call) -> None:
    await call.stream(chunk({"content": "par"}))


async def empty_200(call: Call) -> None:
    await call.stream(b"")


async def error_inside(call: Call) -> None:
    await call.stream(chunk({"content": "par"}) + record({"error": {"message": "x", "code": 500}}))


@pytest.mark.parametrize(
    ("script", "status", "kind"),
    [
        (cut_before_the_head, 529, "overloaded_error"),
        (cut_in_the_middle, 200, "api_error"),
        (clean_end_too_early, 200, "api_error"),
        (empty_200, 500, "api_error"),
        (error_inside, 200, "api_error"),
    ],
)
async def test_every_broken_answer_ends_once(script: Callable[[Call], Awaitable[None]], status: int, kind: str) -> None:
    async with engine(script) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
        assert answer.status_code == status
        if status == 200:
            assert terminals(answer.content) == 1
            assert events(answer.content)[-1][1]["error"]["type"] == kind
        else:
            assert answer.json()["error"]["type"] == kind
        whole = await one.http.post("/v1/messages", json=ASK)
        assert whole.json()["error"]["type"] == kind
        assert whole.status_code >= 500
        await idle(one)


async def test_a_cut_after_the_finish_is_a_whole_answer() -> None:
    async def cut_late(call: Call) -> None:
        await call.head()
        await call.say(chunk({"content": "all"}) + chunk(finish="stop"))
        await asyncio.sleep(0.05)
        call.writer.transport.abort()

    async with engine(cut_late) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
        assert events(answer.content)[-1][0] == "message_stop"


async def test_a_bug_of_ours_is_still_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with engine(silent) as upstream, bridge(upstream.url) as one:

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        one.server._service._upstream.chat = broken  # type: ignore[assignment,method-assign]
        answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "api_error"
        await idle(one)
    assert "ZeroDivisionError" in caplog.text


async def test_at_the_limit_a_request_is_turned_away_at_once() -> None:
    async with engine(silent) as upstream, bridge(upstream.url, max_streams=1) as one:
        _, writer = await start(one, "/v1/messages", {**ASK, "stream": True})
        await until(lambda: bool(upstream.calls))
        async with asyncio.timeout(1.0):
            answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
        assert (answer.status_code, answer.json()["error"]["type"]) == (529, "overloaded_error")
        assert int(answer.headers["retry-after"]) > 0
        writer.close()
        await idle(one)
        report = await one.report()
        assert (report["totals"]["refused"], report["totals"]["turns"]) == (1, 1)


async def test_stopping_now_ends_each_open_stream_with_one_event() -> None:
    async with engine(decoding) as upstream, bridge(upstream.url) as one:

        async def open_stream() -> httpx.Response:
            return await one.http.post("/v1/messages", json={**ASK, "stream": True})

        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(open_stream()) for _ in range(3)]
            await until(lambda: len(upstream.calls) == 3)
            await asyncio.sleep(0.05)
            one.server.stop()
            one.server.stop()
        for task in asking:
            body = task.result().content
            assert terminals(body) == 1
            assert events(body)[-1][1]["error"]["type"] == "overloaded_error"
        await until(lambda: all(call.gone.is_set() for call in upstream.calls), within_s=1.0)
