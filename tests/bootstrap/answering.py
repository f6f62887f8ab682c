"""A local HTTP service of the test's own, which answers as it is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def answering(*answers: bytes | None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that reads a request and sends the next of these, the last again and again, or stays silent on None."""
    over = asyncio.Event()
    ended: list[asyncio.Event] = []
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = asyncio.Event()
        ended.append(mine)
        asked.append(await reader.readline())
        answer = answers[min(len(asked), len(answers)) - 1]
        if answer is None:
            await over.wait()
        else:
            writer.write(answer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        mine.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        over.set()
        server.close()
        for each in ended:
            await each.wait()
