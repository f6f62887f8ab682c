"""Bootstrap's unix socket, both ends: JSON lines, one request line -> one response line. An edge."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from bootstrap.errors import Problem, Unreachable, failing_as

_REQUEST_LIMIT = 65_536  # bytes
Handle = Callable[[dict[str, Any]], dict[str, Any]]  # request -> what its response has beside ok; or raises Problem


@contextlib.asynccontextmanager
async def serving(path: Path, handle: Handle) -> AsyncIterator[None]:
    """Answer requests on a socket of mode 0600 until the block ends; one that is there is replaced. Errors: Problem."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(_respond(line, handle), separators=(",", ":")).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            return  # The client left, or sent a line over the limit: its connection ends, and that is all.
        finally:
            writer.close()

    with failing_as(f"cannot make the control socket {path} (give another --socket)"):
        server = await asyncio.start_unix_server(answer, path, limit=_REQUEST_LIMIT, start_serving=False)
        os.chmod(path, 0o600)  # nobody can connect before it listens
        await server.start_serving()
    with contextlib.closing(server):
        yield
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def refuse_if_answered(path: Path) -> None:
    """Errors: Problem, when another bootstrap uses the socket."""
    with contextlib.suppress(Unreachable):
        ask(path, {"cmd": "status"})
        raise Problem(f"another bootstrap answers on {path}; stop it, or give another --state or --socket")


def _respond(line: bytes, handle: Handle) -> dict[str, Any]:
    try:
        request = json.loads(line)
        return {"ok": True, **handle(request if isinstance(request, dict) else {})}
    except (ValueError, RecursionError):
        return {"ok": False, "error": "the request is not a line of JSON"}
    except Problem as problem:
        return {"ok": False, "error": str(problem)}


def ask(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """One request to a running bootstrap, and its response. Errors: Unreachable; Problem, when it is refused."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(5.0)
            client.connect(os.fspath(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            response = json.loads(client.makefile("rb").readline())
        if response["ok"]:
            return dict(response)
        why = response["error"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Unreachable(f"no bootstrap answers on {path}: {getattr(error, 'strerror', None) or error}") from error
    raise Problem(str(why))
