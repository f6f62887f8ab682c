"""A scripted engine on a raw socket, and the real bridge in front of it: for tests that leave, cut and time out."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import httpx

from bridge.config import Config
from bridge.server import Server

CLIENT, OPERATOR = "client-token", "operator-token"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
ASK: dict[str, Any] = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}


@dataclass
class Call:
    """One request that the engine got, and its connection."""

    path: str
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def head(self) -> None:
        await self.raw(SSE_HEAD)

    async def say(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def stream(self, data: bytes) -> None:
        await self.head()
        if data:  # an empty chunk would be the end
            await self.say(data)
        await self.end()

    async def answer(self, status: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = b"text/plain" if isinstance(body, str) else b"application/json"
        await self.raw(b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, kind, len(data)))
        await self.raw(data)

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def left(self) -> None:
        """Until the bridge closes the connection."""
        with suppress(ConnectionError):
            await self.reader.read()
        self.gone.set()


Script = Callable[[Call], Awaitable[None]]
METRICS = (
    "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 100\n"
    "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
)


async def well(call: Call) -> None:
    """An engine in good health, when somebody only looks at it."""
    if call.path == "/metrics":
        await call.answer(200, METRICS)
    elif call.path == "/version":
        await call.answer(200, {"version": "0.33.0"})
    else:
        await call.answer(200, {"data": [{"id": "m", "max_model_len": 8192}, {"id": "alias", "max_model_len": 8192}]})


class Engine:
    """Runs `script` for each POST and `look` for each GET; the connection is closed when they return."""

    def __init__(self, script: Script, look: Script) -> None:
        self.script = script
        self.look = look
        self.looks: list[Call] = []
        self.calls: list[Call] = []
        self.questions: list[Call] = []  # what the bridge asks to learn what this engine takes
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = [int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length")]
            body = await reader.readexactly(length[0]) if length else b"{}"
            call = Call(head.split(" ")[1], json.loads(body), reader, writer)
            if head.startswith("get "):
                self.looks.append(call)
                await self.look(call)
            elif call.body.get("max_tokens") == 1:
                self.questions.append(call)
                await call.answer(404 if call.path == "/v1/messages" else 200, {"choices": []})
            else:
                self.calls.append(call)
                await self.script(call)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def engine(script: Script, look: Script = well, port: int = 0) -> AsyncIterator[Engine]:
    one = Engine(script, look)
    server = await asyncio.start_server(one.serve, "127.0.0.1", port)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        for call in one.calls + one.looks + one.questions:
            call.writer.close()


@dataclass
class Bridge:
    server: Server
    http: httpx.AsyncClient
    """With the client's token."""

    async def report(self, log_after: int = 0) -> dict[str, Any]:
        answer = await self.http.get(f"/pod/report?log_after={log_after}", headers={"x-api-key": OPERATOR})
        assert answer.status_code == 200
        report: dict[str, Any] = answer.json()
        return report

    async def connections(self) -> tuple[int, int, int]:
        """(clients, upstreams, orphans)."""
        now = (await self.report())["connections"]
        return now["clients"], now["upstreams"], now["orphans"]


def config(engine_url: str | None, **fields: Any) -> Config:
    given: dict[str, Any] = {
        "client_token": CLIENT,
        "operator_token": OPERATOR,
        "model_names": ("m", "alias"),
        "refused_seconds": 0.2,
    }
    given |= fields
    return Config(engine_url=engine_url, **given)


@asynccontextmanager
async def bridge(engine_url: str | None, **fields: Any) -> AsyncIterator[Bridge]:
    """On a free port, in this process, over real sockets."""
    server = Server(config(engine_url, **fields))
    with socket.create_server(("127.0.0.1", 0)) as sock, mock.patch("bridge.server.LINGER_S", 0.0):
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve([sock]))
            await until(lambda: server.started)
            async with httpx.AsyncClient(base_url=url, headers={"x-api-key": CLIENT}, timeout=10, verify=False) as http:
                yield Bridge(server, http)
            server.stop()


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - nothing signals what other processes and sockets do
            await asyncio.sleep(0.005)


async def until_async(condition: Callable[[], Awaitable[bool]], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
