from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.bridge.chunks import DONE, chunk, events, record, terminals, text_answer, usage
from tests.bridge.pod import OK, pod, serving
from tests.bridge.running import ASK, CLIENT, Bridge, Call, bridge, engine, until, until_async

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


def ok(call: Call) -> Awaitable[None]:
    return call.stream(text_answer("fine"))


async def phase(one: Bridge) -> str:
    turns = (await one.report())["turns"]
    return turns[0]["phase"] if turns else "none"


async def until_phase(one: Bridge, wanted: str) -> None:
    async def there() -> bool:
        return await phase(one) == wanted

    await until_async(there)


def changing(**more: Any) -> dict[str, Any]:
    return {"state": "changing", "url": None, "model": None, "models": {}, "reason": "starting", **more}


async def test_while_the_engine_changes_requests_are_held_with_pings_and_then_served() -> None:
    async with (
        engine(ok) as upstream,
        pod(state=changing()) as supervisor,
        bridge(None, bootstrap_socket=supervisor.path, ping_seconds=0.1) as one,
        asyncio.TaskGroup() as group,
    ):
        asking = [
            group.create_task(one.http.post("/v1/messages", json={**ASK, "stream": stream})) for stream in (True, False)
        ]
        await until_phase(one, "queued")
        await asyncio.sleep(0.25)
        assert await one.connections() == (2, 0, 0)
        assert upstream.calls == []
        supervisor.says(**serving(upstream.url, "m", m=["m", "alias"]))
        names = [name for name, _ in events((await asking[0]).content)]
        assert names[:2] == ["ping", "ping"]
        assert names[-1] == "message_stop"
        assert (await asking[1]).json()["content"][0]["text"] == "fine"


async def test_an_engine_that_is_down_is_said_at_once_with_the_reason() -> None:
    async with (
        pod(state=changing(state="down", reason="no GPU left")) as supervisor,
        bridge(None, bootstrap_socket=supervisor.path) as one,
    ):
        await until(lambda: bool(supervisor.told))
        async with asyncio.timeout(0.5):
            answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
        assert (answer.status_code, answer.json()["error"]["type"]) == (529, "overloaded_error")
        assert "no GPU left" in answer.json()["error"]["message"]


async def test_a_hold_has_a_limit() -> None:
    async with (
        pod(state=changing()) as supervisor,
        bridge(None, bootstrap_socket=supervisor.path, hold_seconds=0.1) as one,
    ):
        answer = await one.http.post("/v1/messages", json=ASK)
        assert (answer.status_code, "starting" in answer.json()["error"]["message"]) == (529, True)


async def test_an_engine_that_restarts_costs_a_wait_and_not_the_turn() -> None:
    """It refuses connections for a while, and nobody says that it changes."""
    async with engine(ok) as gone:
        port = gone.port
    async with bridge(gone.url, refused_seconds=5.0) as one, asyncio.TaskGroup() as group:
        asking = group.create_task(one.http.post("/v1/messages", json=ASK))
        await until_phase(one, "queued")
        async with engine(ok, port=port):
            assert (await asking).status_code == 200


MODELS = {"glm": ["glm-4", "claude-glm"], "qwen": ["qwen-3"]}


async def test_a_request_for_another_model_gets_it_swapped_in() -> None:
    async with (
        engine(ok) as upstream,
        pod(state=serving(upstream.url, "qwen", **MODELS)) as supervisor,
        bridge(None, bootstrap_socket=supervisor.path, swap="on", ping_seconds=0.05) as one,
        asyncio.TaskGroup() as group,
    ):

        def swaps(command: dict[str, Any]) -> bytes:
            supervisor.says(state="changing", reason="swapping to glm")
            return OK

        supervisor.answer = swaps
        ask = {**ASK, "stream": True, "model": "claude-glm[1m]"}
        await until(lambda: bool(supervisor.told))
        asking = group.create_task(one.http.post("/v1/messages", json=ask))
        await until_phase(one, "swapping")
        await asyncio.sleep(0.1)
        supervisor.says(state="serving", model="glm")
        answer = await asking
        assert events(answer.content)[0][0] == "ping"
        assert events(answer.content)[-1][0] == "message_stop"
        assert {"cmd": "swap", "model": "glm"} in supervisor.got
        assert [call.body["model"] for call in upstream.calls] == ["glm-4"]
        assert (await one.report())["totals"]["swap_waits"] == 1


async def test_a_swap_that_is_refused_for_long_is_an_error_to_retry() -> None:
    async with (
        engine(ok) as upstream,
        pod(state=serving(upstream.url, "qwen", **MODELS)) as supervisor,
        bridge(None, bootstrap_socket=supervisor.path, swap="on") as one,
    ):
        supervisor.answer = lambda _: b'{"ok":false,"error":"dwell time, 400 s left","wait_s":400}\n'
        await until(lambda: bool(supervisor.told))
        answer = await one.http.post("/v1/messages", json={**ASK, "model": "glm-4"})
        assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (529, True)
        assert "dwell time, 400 s left" in answer.json()["error"]["message"]


@pytest.mark.parametrize(("unknown", "status"), [("serve", 200), ("refuse", 404)])
async def test_without_swaps_another_model_is_as_good_as_unknown(unknown: str, status: int) -> None:
    async with (
        engine(ok) as upstream,
        pod(state=serving(upstream.url, "qwen", **MODELS)) as supervisor,
        bridge(None, bootstrap_socket=supervisor.path, unknown_model=unknown) as one,
    ):
        await until(lambda: bool(supervisor.told))
        answer = await one.http.post("/v1/messages", json={**ASK, "model": "glm-4"})
        assert answer.status_code == status
        assert [call.body["model"] for call in upstream.calls] == ["qwen-3"] * (status == 200)
        assert not [command for command in supervisor.got if command["cmd"] == "swap"]


@pytest.mark.parametrize("kind", ["queued", "swapping", "refused"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "one message"])
async def test_a_client_that_leaves_while_it_is_held_is_noticed(kind: str, stream: bool) -> None:
    state = changing() if kind == "queued" else serving("http://127.0.0.1:1", "qwen", **MODELS)
    async with (
        pod(state=state) as supervisor,
        bridge(None, bootstrap_socket=supervisor.path, swap="on", refused_seconds=9.0) as one,
    ):
        await until(lambda: bool(supervisor.told))
        model = "glm-4" if kind == "swapping" else "qwen-3"
        _, writer = await start(one, "/v1/messages", {**ASK, "stream": stream, "model": model})
        await until_phase(one, "queued" if kind == "refused" else kind)
        writer.close()
        async with asyncio.timeout(1.0):
            await idle(one)
        assert (await one.report())["totals"]["client_gone"] == 1


async def test_three_hundred_silent_streams_are_pinged_and_complete_and_health_does_not_wait() -> None:
    go_on = asyncio.Event()

    async def slow(call: Call) -> None:
        await go_on.wait()
        await call.stream(text_answer("fine"))

    async with engine(slow) as upstream, bridge(upstream.url, ping_seconds=0.2, max_streams=300) as one:
        limits = httpx.Limits(max_connections=None)
        headers = {"x-api-key": CLIENT}
        async with (
            httpx.AsyncClient(base_url=one.http.base_url, headers=headers, timeout=30, limits=limits) as many,
            asyncio.TaskGroup() as group,
        ):
            asking = [group.create_task(many.post("/v1/messages", json={**ASK, "stream": True})) for _ in range(300)]
            await until(lambda: len(upstream.calls) == 300, within_s=20)
            connections = (await one.report())["connections"]
            assert connections["upstreams"] == 300
            assert connections["upstream_sockets"] in (300, 301), "theirs, and that of a look at the engine"
            async with asyncio.timeout(1.0):
                assert (await one.http.get("/healthz")).status_code == 200
            await asyncio.sleep(0.3)
            go_on.set()
            for task in asking:
                names = [name for name, _ in events((await task).content)]
                assert (names[0], names[-1]) == ("ping", "message_stop")
        await idle(one)


async def test_an_answer_in_one_piece_is_kept_alive_by_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.turn.PAD_FIRST_S", 0.05)
    monkeypatch.setattr("bridge.turn.PAD_S", 0.05)

    async def slow(call: Call) -> None:
        await asyncio.sleep(0.2)
        await call.stream(text_answer("fine"))

    async with engine(slow) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post("/v1/messages", json=ASK)
        assert answer.content.startswith(b"  ")
        assert answer.json()["content"][0]["text"] == "fine"

        async def fails(call: Call) -> None:
            await asyncio.sleep(0.2)
            await call.answer(500, {"error": {"message": "x"}})

        upstream.script = fails
        with pytest.raises(httpx.RemoteProtocolError):  # never a whole answer that is none
            await one.http.post("/v1/messages", json=ASK)
        await idle(one)


async def test_a_client_that_does_not_read_holds_the_engine_back() -> None:
    sent = [0]

    async def pours(call: Call) -> None:
        await call.head()
        while True:
            await call.say(chunk({"content": "x" * 10_000}))
            sent[0] += 10_000

    async with engine(pours) as upstream, bridge(upstream.url) as one:
        _, writer = await start(one, "/v1/messages", {**ASK, "stream": True})
        await until(lambda: sent[0] > 0)
        before = -1
        while sent[0] != before:
            before = sent[0]
            await asyncio.sleep(0.1)
        assert before < 30_000_000  # the sockets' buffers and ours, then nothing more
        writer.transport.abort()
        await idle(one)
