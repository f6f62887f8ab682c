"""The tunnel on real sockets, with replicas and a router that a test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from control.fleet.head import END, Head, parse
from control.fleet.models import FrontStatus, Place
from control.fleet.replicas import Replica
from control.fleet.router import Ports
from control.fleet.tunnel import HEAD_MOST, Tunnel, inside
from control.local.provider import LocalProvider
from control.models import PodId

SECRET = "planted0secret"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"


@dataclass
class Asked:
    head: Head
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


Script = Callable[[Asked], Coroutine[Any, Any, None]]


async def well(asked: Asked) -> None:
    asked.writer.write(OK)
    await asked.writer.drain()


@dataclass
class Far:
    """A server behind the tunnel: what it was asked."""

    script: Script = well
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = parse(await reader.readuntil(END))
            one = Asked(head, await reader.readexactly(head.length), reader, writer)
            self.asked.append(one)
            await self.script(one)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Inside:
    tunnel: Tunnel
    router: Far
    replicas: list[Far]
    port: int
    http: httpx.AsyncClient

    def place(self, at: int, place: Place) -> None:
        list(self.tunnel.doors.values())[at].replica.place = place

    def door(self, at: int, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{list(self.tunnel.doors)[at]}{path}"

    def front(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{inside(SECRET)}{path}"


def status() -> FrontStatus:
    return FrontStatus(1, 2.0, (), (), True)


@asynccontextmanager
async def running(*replicas: Far, router: Far | None = None) -> AsyncIterator[Inside]:
    async with AsyncExitStack() as stack:
        router = router or Far()
        for far in (router, *replicas):
            server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
            stack.push_async_callback(_close, server)
            far.port = server.sockets[0].getsockname()[1]
        known = [Replica(PodId(f"pod-{at}"), LocalProvider()) for at in range(len(replicas))]
        for one, far in zip(known, replicas, strict=True):
            one.place = Place("serving", far.url)
        tunnel = Tunnel(known, Ports(router.port, router.port, 0), SECRET, status)
        server = await asyncio.start_server(tunnel.serve, "127.0.0.1", 0, limit=HEAD_MOST)
        stack.push_async_callback(_close, server)
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=5, trust_env=False, verify=False))
        yield Inside(tunnel, router, list(replicas), server.sockets[0].getsockname()[1], http)


async def _close(server: asyncio.Server) -> None:
    server.close()
