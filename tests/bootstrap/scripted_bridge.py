"""A scripted bridge on the socket that bootstrap owns: /healthz answers 200, /hold streams, and SIGTERM drains.

/hold sends one line each time that the next file HOLD/<number> appears. /leak prints both tokens. DEAF=1: no SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

HOLD = Path(os.environ.get("HOLD", "/nonexistent"))


async def hold(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d\n" % os.getpid())
    for number in range(2):
        await writer.drain()
        while not (HOLD / str(number)).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        writer.write(b"line %d\n" % number)


async def main() -> None:
    stop = asyncio.Event()
    if os.environ.get("DEAF") != "1":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    busy: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        busy.add(writer)
        path = (await reader.readline()).split(b" ")[1:2]
        if path == [b"/hold"]:
            await hold(writer)
        else:
            if path == [b"/leak"]:
                say(f"tokens {os.environ['PASSERELLE_CLIENT_TOKEN']} {os.environ['PASSERELLE_OPERATOR_TOKEN']}")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d\n" % os.getpid())
        await writer.drain()
        writer.close()
        busy.discard(writer)

    listener = socket.socket(fileno=int(os.environ["PASSERELLE_LISTEN_FD"]))
    server = await asyncio.start_server(answer, sock=listener)
    say("info serving")
    await stop.wait()
    server.close()
    while busy:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    asyncio.run(main())
