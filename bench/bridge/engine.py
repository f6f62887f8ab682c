"""A scripted engine: chat completions at a set pace, each chunk stamped with the clock at which it was sent.

`python -m bench.bridge.engine PORT`. `POST /script {"chunks", "per_s", "first_s"}` sets the pace of the requests that
follow; `GET /counts` says how many streams are open. The stamp is `@` and 16 hex digits of CLOCK_MONOTONIC in ns.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import dataclass, field
from typing import Any

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764400000,"model":"m","choices":[{"index":0,'
    '"delta":{"content":"%s"},"logprobs":null,"finish_reason":%s,"token_ids":null}],"usage":{"prompt_tokens":1000,'
    '"total_tokens":%d,"completion_tokens":%d}}'
)
STREAMS = re.compile(rb'"stream":\s*true')
ANSWERS: dict[str, Any] = {
    "/health": {},
    "/version": {"version": "0.32.0"},
    "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 1_048_576}]},
    "/tokenize": {"count": 1000, "max_model_len": 1_048_576, "tokens": []},
}


@dataclass
class Script:
    chunks: int = 5
    per_s: float = 0.0
    first_s: float = 0.0


@dataclass
class Bench:
    script: Script = field(default_factory=Script)
    open: int = 0
    done: int = 0
    left: int = 0


def _framed(text: str) -> bytes:
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    def __init__(self, bench: Bench) -> None:
        self._bench, self._loop = bench, asyncio.get_running_loop()
        self._read = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._script, self._sent, self._due = bench.script, 0, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._out = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._bench.open -= 1
            self._bench.left += 1

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._read[:end]).decode("latin-1")
            length = next(
                (int(v) for k, _, v in (h.partition(":") for h in head.split("\r\n")) if k.lower() == "content-length"),
                0,
            )
            if len(self._read) < end + 4 + length:
                return
            body = bytes(self._read[end + 4 : end + 4 + length])
            del self._read[: end + 4 + length]
            self._answer(head.split(" ", 2)[1].split("?")[0], body)

    def _answer(self, path: str, body: bytes) -> None:
        if path == "/script":
            self._bench.script = Script(**json.loads(body))
            return self._whole({})
        if path == "/counts":
            bench = self._bench
            return self._whole({"open": bench.open, "done": bench.done, "left": bench.left})
        if path != "/v1/chat/completions":
            return self._whole(ANSWERS.get(path), 200 if path in ANSWERS else 404)
        if not STREAMS.search(body):  # not parsed: what that costs would be the engine's, not the bridge's
            message = {"role": "assistant", "content": "ok"}
            usage = {"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return self._whole(
                {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
            )
        self._script, self._sent = self._bench.script, 0
        self._bench.open += 1
        self._out.write(STREAM_HEAD)
        self._due = self._loop.time() + self._script.first_s
        self._timer = self._loop.call_at(self._due, self._next)

    def _next(self) -> None:
        self._sent += 1
        last = self._sent == self._script.chunks
        stamp = f"@{time.monotonic_ns():016x}"
        finish = '"stop"' if last else "null"
        self._out.write(_framed(CHUNK % (stamp, finish, 1000 + self._sent, self._sent)))
        if last:
            self._timer = None
            self._bench.open -= 1
            self._bench.done += 1
            return self._out.write(_framed("[DONE]") + b"0\r\n\r\n")
        self._due += 1 / self._script.per_s if self._script.per_s else 0.0
        self._timer = self._loop.call_at(self._due, self._next)

    def _whole(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._out.write(head.encode() + body)


async def main(port: int) -> None:
    bench = Bench()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(bench), "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
