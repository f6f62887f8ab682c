"""The load: streams over raw sockets, in a process of its own. One JSON job on stdin, one JSON result on stdout.

Job: port, path, headers, body (a file), streams at once, requests in all, chunks that each must bring, the stagger
between starts and a limit, in seconds. Times of the result are in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STAMP = re.compile(rb"@([0-9a-f]{16})")
ENDS = (b"message_stop", b"[DONE]")
KEEP = 64  # bytes of one read that may hold the beginning of what the next one completes


@dataclass
class Tally:
    requests: int = 0
    ok: int = 0
    chunks: int = 0
    pings: int = 0
    first_ms: list[float] = field(default_factory=list)
    latency_ms: list[float] = field(default_factory=list)
    gap_ms: list[float] = field(default_factory=list)
    error: str = ""


class Stream(asyncio.Protocol):
    """One request; a new connection each, as from so many agents."""

    def __init__(self, request: bytes, chunks: int, tally: Tally) -> None:
        self._request, self._chunks, self._tally = request, chunks, tally
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tail, self._head = b"", b""
        self._seen, self._last_ns = 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._out = transport
        self._tally.requests += 1
        self._began_ns = time.monotonic_ns()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now, tally = time.monotonic_ns(), self._tally
        self._head = self._head or data[:200]
        text, self._tail = self._tail + data, b""
        stamps, read = [], 0
        for found in STAMP.finditer(text):
            stamps.append(int(found[1], 16))
            read = found.end()
        if stamps:
            (tally.gap_ms if self._seen else tally.first_ms).append((now - (self._last_ns or self._began_ns)) / 1e6)
            tally.latency_ms.extend((now - stamp) / 1e6 for stamp in stamps)
            self._last_ns = now
            self._seen += len(stamps)
        tally.pings += data.count(b"event: ping")
        if any(end in text for end in ENDS):
            return self._end()
        self._tail = text[max(read, len(text) - KEEP) :]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if self.over.done():
            return
        tally = self._tally
        tally.chunks += self._seen
        if self._head.startswith(b"HTTP/1.1 200") and self._seen == self._chunks:
            tally.ok += 1
        else:
            tally.error = tally.error or f"{self._seen} of {self._chunks} chunks: {self._head[:160]!r}"
        self.over.set_result(None)
        self._out.close()


def request_of(job: dict[str, Any]) -> bytes:
    body = Path(job["body"]).read_bytes()
    headers = {"host": "127.0.0.1", "content-type": "application/json", "content-length": len(body), **job["headers"]}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {job['path']} HTTP/1.1\r\n{head}\r\n".encode() + body


async def run(job: dict[str, Any]) -> dict[str, Any]:
    tally, request, loop = Tally(), request_of(job), asyncio.get_running_loop()
    turns, until = deque(range(job["requests"])), time.monotonic() + job["limit_s"]

    async def agent(place: int) -> None:
        await asyncio.sleep(place * job["stagger_s"])
        while turns and time.monotonic() < until:
            turns.popleft()
            make = lambda: Stream(request, job["chunks"], tally)  # noqa: E731
            _, stream = await loop.create_connection(make, "127.0.0.1", job["port"])
            await asyncio.wait([stream.over], timeout=max(0.0, until - time.monotonic()))

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for place in range(job["streams"]):
            group.create_task(agent(place))
    return {**vars(tally), "wall_s": time.monotonic() - began}


if __name__ == "__main__":
    json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
