from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.types import Message, Scope

from control.local.engine_errors import DEAD
from control.local.engine_routes import Service, app
from tests.control.local.simulated import Clock, chunks, recorded, scripted, service, shape

CHAT = "/v1/chat/completions"


@dataclass(slots=True)
class Client:
    """One request over ASGI, as uvicorn speaks it: the client reads what was sent, and may leave."""

    application: Starlette
    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0
    got: bytes = b""
    sent_headers: dict[str, str] = field(default_factory=dict)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    wrote: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    asked: bool = False

    async def run(self) -> Client:
        headers = {"content-length": str(len(self.body))} | self.headers
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "method": self.method,
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 9),
            "headers": [(key.encode(), said.encode()) for key, said in headers.items()],
        }
        await self.application(scope, self._receive, self._send)
        return self

    def json(self) -> Any:
        return json.loads(self.got)

    async def _receive(self) -> Message:
        if not self.asked:
            self.asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.sent_headers = {key.decode(): said.decode() for key, said in message["headers"]}
            self.begun.set()
        else:
            self.got += message.get("body", b"")
            if message.get("body"):
                self.wrote.set()


@dataclass(slots=True)
class World:
    service: Service
    application: Starlette

    def client(self, path: str, body: object = None, method: str = "POST", **headers: str) -> Client:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        return Client(self.application, method, path, raw, headers)

    async def post(self, path: str, body: object, **headers: str) -> Client:
        return await self.client(path, body, **headers).run()

    async def get(self, path: str) -> Client:
        return await self.client(path, method="GET").run()


@asynccontextmanager
async def world(*flags: str) -> AsyncIterator[World]:
    served = service(Clock(), *flags)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(served.engine.run())
        yield World(served, app(served))
        task.cancel()


def chat(script: object, **more: object) -> dict[str, Any]:
    return {"model": "tiny-qwen", "messages": scripted(script), **more}


async def test_the_small_routes_answer_as_real_vllm_does() -> None:
    async with world() as here:
        for path in ("/health", "/ping"):
            got = await here.get(path)
            assert (got.status, got.got) == (200, b"")
        assert (await here.get("/version")).json() == {"version": "0.32.0+simulated"}
        assert (await here.get("/load")).json() == {"server_load": 0}
        models = await here.get("/v1/models")
        assert shape(models.json()) == shape(json.loads(recorded("get_models")[2]))
        assert [card["id"] for card in models.json()["data"]] == ["tiny-qwen", "tiny-alias"]
        missing = await here.get("/nope")
        assert (missing.status, missing.got.decode()) == (404, recorded("404")[2].strip())


async def test_a_stream_is_sent_as_it_is_generated() -> None:
    async with world() as here:
        got = await here.post(CHAT, chat({"thinking": 2, "text": "Hello"}, stream=True))
        assert got.status == 200
        assert got.sent_headers["content-type"] == recorded("plain_stream")[1]["content-type"]
        records = chunks(got.got.decode())
        assert records[-1] == "[DONE]"
        assert "".join(record["choices"][0]["delta"].get("content") or "" for record in records[:-1]) == "Hello"


async def test_a_whole_answer_carries_what_the_cache_did() -> None:
    async with world() as here:
        body = chat({"text": "Hello" * 20}, max_tokens=9)
        first, second = [(await here.post(CHAT, body)).json()["usage"] for _ in range(2)]
        prompt = first["prompt_tokens"]
        full = prompt // 16 * 16
        hit = (prompt - 1) // 16 * 16
        assert first["prompt_tokens_details"]["cached_tokens"] == 0
        assert first["prompt_tokens_details"]["created_cache_tokens"] == full
        assert second["prompt_tokens_details"]["cached_tokens"] == hit > 0


async def test_details_of_the_prompt_need_vllms_flag() -> None:
    async with world("--no-enable-prompt-tokens-details") as here:
        assert (await here.post(CHAT, chat({"text": "x"}))).json()["usage"]["prompt_tokens_details"] is None


async def test_completions_and_tokenize_answer() -> None:
    async with world() as here:
        body = {"prompt": 'x [[sim {"text": "said"}]]', "max_tokens": 5}
        got = (await here.post("/v1/completions", body)).json()
        assert got["choices"][0]["text"] == "said"
        count = (await here.post("/tokenize", {"messages": chat({})["messages"]})).json()
        assert set(count) == {"count", "max_model_len", "tokens", "token_strs"}
        assert count["count"] == len(count["tokens"]) > 10


async def test_the_id_is_the_clients_request_id() -> None:
    async with world() as here:
        got = await here.post(CHAT, chat({"text": "x"}), **{"x-request-id": "abc-1"})
        assert got.json()["id"] == "chatcmpl-abc-1"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"", 400),
        (b'{"model": "nope", "messages": []}', 404),
        (b"\xff", 400),
        (b"[" * 9999, 400),
    ],
)
async def test_a_bad_body_is_refused(body: bytes, status: int) -> None:
    async with world() as here:
        got = await here.post(CHAT, body)
        assert got.status == status
        assert got.json()["error"]["code"] == status


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_while_it_waits_is_freed(stream: bool) -> None:
    async with world() as here, asyncio.TaskGroup() as group:
        here.service.engine.set_fault("deferred")
        client = here.client(CHAT, chat({"text": 9}, stream=stream))
        task = group.create_task(client.run())
        await _until(here, waiting=1)
        # A waiting stream has its 200 already, as vLLM's has; a waiting body has nothing.
        assert client.begun.is_set() is stream
        client.left.set()
        await task
        assert here.service.engine.state()["waiting"] == []
        assert (here.service.load, client.got) == (0, b"")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_while_it_is_answered_is_freed(stream: bool) -> None:
    async with world() as here, asyncio.TaskGroup() as group:
        client = here.client(CHAT, chat({"text": 5000}, stream=stream))
        task = group.create_task(client.run())
        await _until(here, running=1)
        client.left.set()
        await task
        state = here.service.engine.state()
        assert (state["running"], state["kv"]["used"], here.service.load) == ([], 0, 0)


async def test_a_client_that_leaves_before_its_body_is_whole_starts_nothing() -> None:
    async with world() as here:
        client = here.client(CHAT)
        client.asked = True
        client.left.set()
        await client.run()
        assert (client.status, here.service.engine.streams) == (0, {})


async def test_load_counts_who_is_being_answered() -> None:
    async with world() as here, asyncio.TaskGroup() as group:
        here.service.engine.set_fault("freeze")
        client = here.client(CHAT, chat({"text": 1}))
        task = group.create_task(client.run())
        await _until(here, waiting=1)
        assert (await here.get("/load")).json() == {"server_load": 1}
        # A frozen engine's API server answers: health says nothing about tokens.
        assert (await here.get("/health")).status == 200
        here.service.engine.set_fault("none")
        await task


async def test_an_error_in_a_stream_is_a_record_in_a_200() -> None:
    async with world() as here:
        here.service.engine.set_fault("error_in_stream")
        got = await here.post(CHAT, chat({"text": 500}, stream=True))
        assert got.status == 200
        *_rest, error, done = chunks(got.got.decode())
        assert done == "[DONE]"
        assert error["error"] | {"message": ""} == {
            "message": "",
            "type": "InternalServerError",
            "param": None,
            "code": 500,
        }


async def test_a_dead_engine_answers_500_until_it_is_gone() -> None:
    async with world() as here, asyncio.TaskGroup() as group:
        stream, whole = here.client(CHAT, chat({"text": 5000}, stream=True)), here.client(CHAT, chat({"text": 5000}))
        tasks = [group.create_task(client.run()) for client in (stream, whole)]
        await asyncio.wait_for(stream.wrote.wait(), 10)
        assert (await here.post("/sim/fault", {"kind": "die"})).status == 200
        for task in tasks:
            await task
        late = await here.post(CHAT, chat({"text": 1}))
        assert (whole.status, late.status) == (500, 500)
        wanted = '{"error":{"message":"' + DEAD + '","type":"InternalServerError","param":null,"code":500}}'
        assert whole.got.decode() == late.got.decode() == wanted
        assert chunks(stream.got.decode())[-2]["error"]["message"] == DEAD


async def test_faults_are_set_by_their_route_and_seen_in_the_state() -> None:
    async with world() as here:
        got = await here.post("/sim/fault", {"kind": "slow_prefill", "factor": 0.5, "seconds": 60})
        assert got.json()["fault"] == {"kind": "slow_prefill", "target": None}
        assert (await here.get("/sim/state")).json()["fault"]["kind"] == "slow_prefill"
        for bad in ({"kind": "nope"}, {"kind": "freeze", "seconds": 0}, {"kind": "slow_prefill", "factor": 0}, {}):
            assert (await here.post("/sim/fault", bad)).status == 400
        assert here.service.engine.fault.kind == "slow_prefill"


async def test_metrics_follow_the_requests() -> None:
    async with world() as here:
        tool = {"type": "function", "function": {"name": "Read"}}
        script = {"text": "a" * 8, "tools": [{"name": "Read", "input": {}}]}
        await here.post(CHAT, chat(script, stream=True, tools=[tool]))
        await here.post(CHAT, chat(script, tools=[tool]))
        await here.post(CHAT, {"model": "nope"})
        got = await here.get("/metrics")
        assert got.sent_headers["content-type"].startswith("text/plain")
        lines = got.got.decode().splitlines()
        wanted = [
            'http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2.0',
            'http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"} 1.0',
            'vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny-qwen"} 2.0',
            'vllm:num_requests_running{engine="0",model_name="tiny-qwen"} 0.0',
            'vllm:kv_cache_usage_perc{engine="0",model_name="tiny-qwen"} 0.0',
            _parsed("streaming", "tool_call", 2),
            _parsed("streaming", "no_tool_call", 2),
            _parsed("non_streaming", "tool_call", 1),
        ]
        assert [line for line in wanted if line not in lines] == []
        assert not any("/metrics" in line for line in lines)


def _parsed(mode: str, outcome: str, count: int) -> str:
    labels = f'mode="{mode}",model_name="tiny-qwen",outcome="{outcome}",request_type="chat_completions"'
    return f"vllm:tool_call_parser_invocations_total{{{labels}}} {count}.0"


async def _until(here: World, **sizes: int) -> None:
    """Until so many run or wait."""
    for _ in range(20_000):
        state = here.service.engine.state()
        if all(len(state[key]) == size for key, size in sizes.items()):
            return
        await asyncio.sleep(0)
    raise AssertionError(here.service.engine.state())
