from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import httpx
import msgspec
import pytest

from bridge.app import gate
from bridge.config import Config
from bridge.ledger import Ledger
from bridge.report import PodReport
from tests.bridge.chunks import DATA, DONE, chunk, recorded, text_answer, tool, usage, usage_chunk
from tests.bridge.pod import pod, serving, statuses
from tests.bridge.running import ASK, CLIENT, METRICS, OPERATOR, Bridge, Call, bridge, engine, until
from tests.bridge.test_upstream import mute, unused

pytestmark = pytest.mark.process

TOOLS: list[Any] = [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]
DEAD = "http://127.0.0.1:1"


def sdk(one: Bridge) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=str(one.http.base_url), api_key=CLIENT, max_retries=0)


async def everything(call: Call) -> None:
    await call.stream(
        chunk({"role": "assistant", "content": ""}, usage=usage(100, 0))
        + chunk({"reasoning": "hm"})
        + chunk({"content": "\n\nLook"})
        + chunk({"tool_calls": [tool(0, '{"x":', "f", "c1"), tool(1, '{"y":', "f", "c2")]})
        + chunk({"tool_calls": [tool(0, "1}"), tool(1, "2}")]})
        + chunk(finish="tool_calls")
        + usage_chunk(100, 9, 60)
        + DONE
    )


async def test_the_official_client_reads_a_stream() -> None:
    async with (
        engine(everything) as upstream,
        bridge(upstream.url) as one,
        sdk(one) as client,
        client.messages.stream(
            model="any", max_tokens=64, messages=[{"role": "user", "content": "hi"}], tools=TOOLS
        ) as stream,
    ):
        text = "".join([part async for part in stream.text_stream])
        message = await stream.get_final_message()
    thinking, words, first, second = message.content
    assert thinking.type == "thinking"
    assert (thinking.thinking, bool(thinking.signature)) == ("hm", True)
    assert (words.type, text) == ("text", "\n\nLook")
    assert first.type == second.type == "tool_use"
    assert (first.id, first.input, second.id, second.input) == ("c1", {"x": 1}, "c2", {"y": 2})
    assert (message.stop_reason, message.model) == ("tool_use", "any")
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (40, 60)
    assert message.usage.output_tokens == 9
    assert upstream.calls[0].body["model"] == "m"


async def test_the_official_client_reads_one_message_and_counts_tokens() -> None:
    async def both(call: Call) -> None:
        await (call.answer(200, {"count": 12}) if call.path == "/tokenize" else everything(call))

    async with engine(both) as upstream, bridge(upstream.url) as one, sdk(one) as client:
        message = await client.messages.create(
            model="any", max_tokens=64, messages=[{"role": "user", "content": "hi"}], tools=TOOLS
        )
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
        counted = await client.messages.count_tokens(
            model="any", system="S", messages=[{"role": "user", "content": "hi"}], tools=TOOLS
        )
        assert counted.input_tokens == 12
        assert upstream.calls[1].body["messages"][0] == {"role": "system", "content": "S"}
        assert upstream.calls[1].body["tools"]


@pytest.mark.parametrize("mode", ["native", "off"])
async def test_where_the_engine_renders_the_prompt_it_counts_it_too(mode: str) -> None:
    """A real vLLM 0.32 makes 271 tokens of a conversation of which our translation makes 292."""
    asked = {**ASK, "model": "any", "system": "S"}
    async with (
        engine(lambda call: call.answer(200, {"input_tokens": 12})) as upstream,
        bridge(upstream.url, mode=mode) as one,
    ):
        answer = await one.http.post("/v1/messages/count_tokens?beta=true", json=asked)
    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 12})
    assert [call.path for call in upstream.calls] == ["/v1/messages/count_tokens"]
    assert upstream.calls[0].body == {**asked, "model": "m"}


async def test_the_official_client_understands_our_errors() -> None:
    async with bridge(DEAD) as one, sdk(one) as client:
        with pytest.raises(anthropic.APIStatusError) as down:
            await client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}])
        assert (down.value.status_code, down.value.response.headers["retry-after"]) == (529, "10")
        with pytest.raises(anthropic.AuthenticationError):
            await client.with_options(api_key="wrong").messages.create(
                model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
            )


async def test_an_overflow_reaches_the_client_in_the_words_that_make_it_compact() -> None:
    message = (
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens,"
        " which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
    )

    async def refuse(call: Call) -> None:
        await call.answer(400, {"error": {"message": message, "code": 400}})

    async with engine(refuse) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post("/v1/messages", json={**ASK, "stream": True})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "prompt is too long: 8193 tokens > 8192 maximum"


async def test_a_recorded_claude_code_turn_goes_through_and_is_known_by_its_agent() -> None:
    turns = json.loads((DATA / "claude-code" / "turns.json").read_text())["requests"]
    async with engine(lambda call: call.stream(text_answer("ok"))) as upstream, bridge(upstream.url) as one:
        for turn in turns:
            answer = await one.http.post("/v1/messages?beta=true", json=turn["body"], headers=turn["headers"])
            assert answer.status_code == 200
        report = await one.report()
    assert {agent["agent"] for agent in report["agents"]} == {"main", turns[1]["headers"]["x-claude-code-agent-id"]}
    assert report["totals"]["completed"] == len(turns)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/v1/messages", b"{", 400, "invalid_request_error"),
        ("POST", "/v1/messages", b'{"model":"m","messages":[]}', 400, "invalid_request_error"),
        ("POST", "/v1/messages", b'{"max_tokens":1}', 400, "invalid_request_error"),
        ("POST", "/v1/chat/completions", b"[]", 400, "invalid_request_error"),
        ("GET", "/v1/messages", b"", 405, "invalid_request_error"),
        ("GET", "/nope", b"", 404, "not_found_error"),
        ("GET", "/pod/report", b"", 403, "permission_error"),
        ("POST", "/v1/api/event_logging/batch", b"{}", 404, "not_found_error"),
    ],
)
async def test_every_refusal_has_the_envelope_and_the_status(
    method: str, path: str, body: bytes, status: int, kind: str
) -> None:
    async with bridge(DEAD) as one:
        answer = await one.http.request(method, path, content=body)
    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == kind
    assert answer.json()["request_id"] == answer.headers["request-id"]


async def test_a_body_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.app.MAX_BODY", 1000)
    async with bridge(DEAD) as one:
        answer = await one.http.post("/v1/messages", content=b"x" * 5000)
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


async def test_a_body_that_is_said_to_be_too_large_is_refused_unread() -> None:
    async with bridge(DEAD) as one:
        url = one.http.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {CLIENT}\r\ncontent-length: 99999999999\r\n\r\n"
        writer.write(head.encode())
        async with asyncio.timeout(1.0):
            assert (await reader.readline()).split()[1] == b"413"
        writer.close()


async def test_unknown_models_can_be_refused() -> None:
    async with bridge(DEAD, unknown_model="refuse") as one:
        answer = await one.http.post("/v1/messages", json={**ASK, "model": "claude-opus-5-5"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


async def test_models_in_both_dialects() -> None:
    async with bridge(DEAD, model_names=("m", "m[1m]")) as one:
        openai = (await one.http.get("/v1/models")).json()
        theirs = (await one.http.get("/v1/models", headers={"anthropic-version": "2023-06-01"})).json()
        async with sdk(one) as client:
            listed = [model.id async for model in client.models.list(limit=1)]
    assert listed == ["m", "m[1m]"]
    assert (openai["object"], [model["id"] for model in openai["data"]]) == ("list", ["m", "m[1m]"])
    assert (theirs["data"][0]["type"], theirs["has_more"], theirs["last_id"]) == ("model", False, "m[1m]")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize"])
async def test_relays_pass_bytes_and_statuses(path: str) -> None:
    async with engine(lambda call: call.stream(recorded("plain_usage.sse"))) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post(path, json={"model": "alias[1m]", "stream": True, "prompt": "x"})
        assert answer.content == recorded("plain_usage.sse")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert upstream.calls[0].path == path
        assert upstream.calls[0].body == {"model": "m", "stream": True, "prompt": "x"}
        upstream.script = lambda call: call.answer(422, {"error": {"message": "no"}})
        answer = await one.http.post(path, json={"model": "m"})
        assert (answer.status_code, answer.json()) == (422, {"error": {"message": "no"}})
        totals = (await one.report())["totals"]
        assert (totals["turns"], totals["completed"], totals["failed"]) == (2, 1, 1)


async def test_a_report_is_one_consistent_moment() -> None:
    status = {"bridge": {"restarts": 2}, "log": []}

    async def decoding(call: Call) -> None:
        await call.head()
        await call.say(chunk({"content": "x"}, usage=usage(50, 3)))
        await call.left()

    async with (
        engine(decoding) as upstream,
        pod(statuses(status), serving(upstream.url, "m", m=["m"])) as supervisor,
        bridge(upstream.url, bootstrap_socket=supervisor.path) as one,
        one.http.stream("POST", "/v1/messages", json={**ASK, "stream": True}) as stream,
    ):
        body = stream.aiter_bytes()
        await anext(body)
        raw = (await one.http.get("/pod/report?log_after=41", headers={"x-api-key": OPERATOR})).content
        metrics = (await one.http.get("/metrics")).text
    report = msgspec.json.decode(raw, type=PodReport)
    (turn,) = report.turns
    assert (turn.phase, turn.input_tokens, turn.output_tokens, turn.agent) == ("text", 50, 3, "main")
    assert turn.ttft_s is not None
    assert (report.connections.clients, report.connections.upstreams, report.connections.orphans) == (1, 1, 0)
    assert report.connections.sockets >= 2
    assert (report.bootstrap, report.bootstrap_error) == (status, None)
    assert supervisor.got[0] == {"cmd": "status", "log_after": 41}
    assert (report.engine.reachable, report.engine.version, report.engine.max_model_len) == (True, "0.33.0", 8192)
    assert metrics.startswith(METRICS)
    assert "passerelle_bridge_restarts_total 2.0" in metrics
    assert 'passerelle_turns_live{phase="text"} 1.0' in metrics


async def test_a_report_with_everything_else_dead_is_still_an_answer() -> None:
    async with bridge(DEAD, bootstrap_socket="/nonexistent") as one:
        report = await one.report()
        metrics = (await one.http.get("/metrics")).text
        bad = await one.http.get("/pod/report?log_after=x", headers={"x-api-key": OPERATOR})
    assert (report["engine"]["reachable"], report["bootstrap"]) == (False, None)
    assert report["engine"]["error"]
    assert report["bootstrap_error"]
    assert "passerelle_turns_total 0.0" in metrics
    assert bad.status_code == 400


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [(400, "no such role", 400), (503, "busy", 529), (500, "broken", 500), (200, "no count", 500)],
)
async def test_a_count_that_the_engine_refuses_says_why(status: int, message: str, expected: int) -> None:
    refuse = {"error": {"message": message, "code": status}}
    async with engine(lambda call: call.answer(status, refuse)) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post("/v1/messages/count_tokens", json=ASK)
        assert (answer.status_code, answer.json()["type"]) == (expected, "error")
        assert status == 200 or answer.json()["error"]["message"] == message
    async with bridge(DEAD) as one:
        assert (await one.http.post("/v1/messages/count_tokens", json=ASK)).status_code == 529


@pytest.mark.parametrize(
    ("verb", "fields", "command"),
    [
        ("restart", {"service": "engine"}, "restart"),
        ("swap", {"model": "glm"}, "swap"),
        ("apply", {}, "apply"),
        ("keep", {}, "keep"),
        ("stop", {}, "stop-pod"),
    ],
)
async def test_the_operators_commands_reach_the_supervisor(verb: str, fields: dict[str, str], command: str) -> None:
    operator = {"x-api-key": OPERATOR}
    async with pod() as supervisor, bridge(DEAD, bootstrap_socket=supervisor.path) as one:
        done = await one.http.post(f"/pod/{verb}", json=fields, headers=operator)
        assert (done.status_code, done.json()) == (200, {"ok": True})
        assert supervisor.got == [{"cmd": command, **fields}]
        supervisor.answer = lambda _: b'{"ok":false,"error":"not now"}\n'
        refused = await one.http.post(f"/pod/{verb}", json=fields, headers=operator)
        assert (refused.status_code, refused.json()["error"]["message"]) == (409, "the supervisor refused: not now")
        assert (await one.http.post(f"/pod/{verb}", json=fields)).status_code == 403
    async with bridge(DEAD) as one:
        away = await one.http.post(f"/pod/{verb}", json=fields, headers=operator)
        assert (away.status_code, away.json()["type"]) == (503, "error")


async def test_the_log_is_a_window_of_the_supervisors() -> None:
    async with (
        pod(lambda _: b'{"ok":true,"log":[],"log_next":7}\n') as supervisor,
        bridge(DEAD, bootstrap_socket=supervisor.path) as one,
    ):
        log = await one.http.get("/pod/log?after=5&limit=2", headers={"x-api-key": OPERATOR})
        assert log.json() == {"ok": True, "log": [], "log_next": 7}
        assert supervisor.got == [{"cmd": "tail", "after": 5, "limit": 2}]


async def test_a_drain_turns_new_turns_away_until_it_ends() -> None:
    operator = {"x-api-key": OPERATOR}
    async with engine(lambda call: call.stream(text_answer("ok"))) as upstream, bridge(upstream.url) as one:
        assert (await one.http.post("/pod/drain", json={"on": True}, headers=operator)).status_code == 200
        away = await one.http.post("/v1/messages", json=ASK)
        assert (away.status_code, away.headers["retry-after"]) == (529, "1")
        assert (await one.report())["draining"] is True
        assert (await one.http.post("/pod/drain", json={"on": False}, headers=operator)).status_code == 200
        assert (await one.http.post("/v1/messages", json=ASK)).status_code == 200
        for body in ({}, {"on": 1}):
            assert (await one.http.post("/pod/drain", json=body, headers=operator)).status_code == 404
        assert (await one.http.post("/pod/nothing", json={}, headers=operator)).status_code == 404


async def test_the_last_finished_turns_are_in_the_report_when_asked() -> None:
    async with engine(lambda call: call.stream(text_answer("ok"))) as upstream, bridge(upstream.url) as one:
        for text in ("a", "b", "b"):
            message = {"role": "user", "content": text}
            agent = {"x-claude-code-agent-id": "z", "x-claude-code-session-id": "s"}
            await one.http.post("/v1/messages", json={**ASK, "messages": [message]}, headers=agent)
        operator = {"x-api-key": OPERATOR}
        report = (await one.http.get("/pod/report?finished=2", headers=operator)).json()
        assert [turn["stop"] for turn in report["finished"]] == ["end_turn", "end_turn"]
        assert [bool(turn["prefix_break"]) for turn in report["finished"]] == [False, True]
        assert report["totals"]["prefix_breaks"] == 1
        assert (await one.report())["finished"] == []


async def test_a_prompt_that_the_engine_renders_breaks_nothing_here() -> None:
    """Claude Code moves cache_control to the newest message each turn, and engines leave it out."""
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    async with (
        engine(lambda call: call.stream(text_answer("ok"))) as upstream,
        bridge(upstream.url, mode="native") as one,
    ):
        for first in ([marked], "a"):
            messages = [{"role": "user", "content": first}, {"role": "assistant", "content": "b"}]
            await one.http.post("/v1/messages", json={**ASK, "messages": messages})
        assert (await one.report())["totals"]["prefix_breaks"] == 0


async def test_health_does_not_wait_for_a_frozen_engine() -> None:
    async with engine(mute, mute) as upstream, bridge(upstream.url) as one, asyncio.TaskGroup() as group:
        asking = [group.create_task(one.http.post("/v1/messages", json=ASK)) for _ in range(20)]
        await until(lambda: len(upstream.calls) == 20)
        async with asyncio.timeout(0.5), httpx.AsyncClient(base_url=one.http.base_url) as anyone:
            answer = await anyone.get("/healthz")
        assert answer.json()["status"] == "ok"
        for task in asking:
            task.cancel()


async def test_a_wrong_token_never_reaches_the_engine() -> None:
    async with engine(unused) as upstream, bridge(upstream.url) as one:
        answer = await one.http.post("/v1/messages", json=ASK, headers={"x-api-key": "wrong"})
        assert answer.status_code == 401
        assert upstream.calls == []
        assert (await one.report())["totals"]["unauthorized"] == 1


GATED = Config(engine_url="http://e", client_token="cli-tok", operator_token="op-tok")


async def knock(path: str, *headers: tuple[bytes, bytes]) -> tuple[int, dict[bytes, bytes], bytes, Ledger]:
    """Status, headers and body of one request through the gate to an application that always says 200."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["state"]["request_id"].encode()})

    async def receive() -> Any:
        raise AssertionError("the gate must not read the body")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    ledger = Ledger(1)
    await gate(application, GATED, ledger, lambda: path == "/draining")(
        {"type": "http", "path": path, "headers": list(headers)}, receive, send
    )
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"], ledger


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/v1/messages", (b"x-api-key", b"cli-tok"), 200),
        ("/v1/messages", (b"authorization", b"Bearer cli-tok"), 200),
        ("/v1/messages", (b"authorization", b"bearer op-tok"), 200),
        ("/v1/messages", (b"authorization", b"Basic cli-tok"), 401),
        ("/v1/messages", (b"x-api-key", b"cli-to"), 401),
        ("/v1/messages", (b"x-api-key", b""), 401),
        ("/v1/messages", (b"x-api-key", b"\xff\xfe"), 401),
        ("/metrics", (b"cookie", b"x"), 401),
        ("/nope", (b"cookie", b"x"), 401),
        ("/pod/report", (b"x-api-key", b"cli-tok"), 403),
        ("/pod/report", (b"x-api-key", b"op-tok"), 200),
        ("/healthz", (b"cookie", b"x"), 200),
        ("/draining", (b"x-api-key", b"cli-tok"), 200),
        ("/healthz/", (b"cookie", b"x"), 401),
    ],
)
async def test_who_may_ask_what(path: str, header: tuple[bytes, bytes], status: int) -> None:
    got, headers, body, ledger = await knock(path, header)
    assert got == status
    assert headers[b"request-id"].startswith(b"req_")
    assert (b"connection" in headers) == (path == "/draining")
    assert ledger.counts["unauthorized"] == (status != 200)
    if status == 200:
        assert body == headers[b"request-id"]
    else:
        error = json.loads(body)
        assert error["error"]["type"] == {401: "authentication_error", 403: "permission_error"}[status]
        assert error["request_id"].encode() == headers[b"request-id"]
        assert b"tok" not in body.replace(b"token", b"")


async def test_where_nobody_is_asked_for_a_token_everybody_may_steer() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        raise AssertionError("the gate must not read the body")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    open_ = Config(engine_url="http://e", client_token="", operator_token="", insecure_no_auth=True)
    for headers in ([], [(b"x-api-key", b"any")]):
        scope = {"type": "http", "path": "/pod/report", "headers": headers}
        await gate(application, open_, Ledger(1), lambda: False)(scope, receive, send)
    assert [message["status"] for message in sent] == [200, 200]
