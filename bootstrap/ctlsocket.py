"""Bootstrap's unix socket, both ends: JSON lines, one request -> one response, or many to a watcher. An edge."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from bootstrap.errors import Problem, Unreachable, failing_as

LIMIT_S = 20.0  # for an answer
_LINE_LIMIT = 65_536  # bytes of a request

Message = dict[str, Any]
Handle = Callable[[Message], Awaitable[Message]]  # request -> what its response has beside ok; or raises Problem
Tell = Callable[[Message], Awaitable[None]]
Watch = Callable[[AsyncIterator[Message], Tell], Awaitable[None]]  # what a watcher writes, and how to write to it


@contextlib.asynccontextmanager
async def serving(path: Path, handle: Handle, watch: Watch) -> AsyncIterator[None]:
    """Answer requests on a socket of mode 0600 until the block ends; one that is there is replaced. Errors: Problem."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def tell(message: Message) -> None:
            writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await writer.drain()

        try:
            requests = _messages(reader)
            async for request in requests:
                if request.get("cmd") == "watch":
                    await watch(requests, tell)
                else:
                    await tell(await _response(request, handle))
        except (OSError, ValueError):
            return  # The client left, or sent a line over the limit: its connection ends, and that is all.
        finally:
            writer.close()

    with failing_as(f"cannot make the control socket {path} (give another --socket)"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        server = await asyncio.start_unix_server(answer, path, limit=_LINE_LIMIT, start_serving=False)
        os.chmod(path, 0o600)  # nobody can connect before it listens
        await server.start_serving()
    with contextlib.closing(server):
        yield
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[Message]:
    while line := await reader.readline():
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        yield message if isinstance(message, dict) else {"cmd": None}


async def _response(request: Message, handle: Handle) -> Message:
    try:
        return {"ok": True, **await handle(request)}
    except Problem as problem:
        return {"ok": False, "error": str(problem), "wait_s": problem.wait_s}


def refuse_if_answered(path: Path) -> None:
    """Errors: Problem, when another bootstrap uses the socket."""
    with contextlib.suppress(Unreachable):
        ask(path, {"cmd": "status"})
        raise Problem(f"another bootstrap answers on {path}; stop it, or give another --state or --socket")


def ask(path: Path, request: Message) -> Message:
    """One request to a running bootstrap, and its response. Errors: Unreachable; Problem, when it is refused."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(LIMIT_S)
            client.connect(os.fspath(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            with client.makefile("rb") as answers:
                response = dict(json.loads(answers.readline()))
    except (OSError, ValueError, TypeError) as error:
        raise Unreachable(f"no bootstrap answers on {path}: {getattr(error, 'strerror', None) or error}") from error
    if type(response.get("ok")) is not bool:
        raise Unreachable(f"no bootstrap answers on {path}, but something else does")
    if not response["ok"]:
        raise Problem(str(response.get("error")))
    return response
