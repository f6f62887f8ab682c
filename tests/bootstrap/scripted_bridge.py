"""A scripted bridge on the socket that bootstrap owns: /healthz answers 200, /hold streams, and SIGTERM drains.

It watches the supervisor, writes its news to HOLD/news, and tells of its streams. /hold sends one line each time that
the next file HOLD/<number> appears. /leak prints both tokens. /hang stops everything. DEAF=1: no SIGTERM.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

HOLD = Path(os.environ.get("HOLD", "/nonexistent"))


async def hold(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d\n" % os.getpid())
    for number in range(2):
        await writer.drain()
        while not (HOLD / str(number)).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        writer.write(b"line %d\n" % number)


def note(line: bytes) -> None:
    with open(HOLD / "news", "ab") as news:
        news.write(line)


def hang_here() -> None:
    time.sleep(600)


async def watch(holding: set[asyncio.StreamWriter]) -> None:
    reader, writer = await asyncio.open_unix_connection(os.environ["PASSERELLE_BOOTSTRAP_SOCKET"])
    writer.write(b'{"cmd":"watch"}\n')
    told = None

    async def tell() -> None:
        nonlocal told
        while True:
            if (live := len(holding)) != told:
                writer.write(json.dumps({"live": live, "clients": live}).encode() + b"\n")
                told = live
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as tasks:
        telling = tasks.create_task(tell())
        while line := await reader.readline():
            note(line)
        telling.cancel()


async def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    stop = asyncio.Event()
    if os.environ.get("DEAF") != "1":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    busy: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).split(b" ")[1:2]
        if path == [b"/hold"]:
            busy.add(writer)
            await hold(writer)
        else:
            if path == [b"/hang"]:
                hang_here()
            if path == [b"/leak"]:
                say(f"tokens {os.environ['PASSERELLE_CLIENT_TOKEN']} {os.environ['PASSERELLE_OPERATOR_TOKEN']}")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d\n" % os.getpid())
        await writer.drain()
        writer.close()
        busy.discard(writer)

    listener = socket.socket(fileno=int(os.environ["PASSERELLE_LISTEN_FD"]))
    server = await asyncio.start_server(answer, sock=listener)
    say("info serving")
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch(busy))
        await stop.wait()
        server.close()
        while busy:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        watching.cancel()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    asyncio.run(main())
