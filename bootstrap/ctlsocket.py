"""Bootstrap's unix socket, both ends: JSON lines, one request line -> one response line. An edge."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATH_LIMIT = 100
"""Bytes. The kernel allows 107 (sun_path), and a path that is too long is said before anything is started."""
_REQUEST_LIMIT = 65_536

Handle = Callable[[dict[str, Any]], dict[str, Any]]


class SocketProblem(Exception):
    """The socket cannot be made, or nobody answers on it; the text says why and what to do."""


def bind(path: Path) -> socket.socket:
    """A socket of mode 0600, bound. A file left behind by a dead supervisor is replaced. Errors: SocketProblem."""
    if len(os.fsencode(path)) > PATH_LIMIT:
        raise SocketProblem(
            f"the path of the control socket is over {PATH_LIMIT} bytes; give a shorter --socket: {path}"
        )
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        before = os.umask(0o177)
        try:
            bound.bind(os.fspath(path))
        finally:
            os.umask(before)
    except (OSError, SocketProblem) as error:
        bound.close()
        if isinstance(error, SocketProblem):
            raise
        raise SocketProblem(f"cannot make the control socket {path}: {error.strerror}") from error
    return bound


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketProblem(
            f"{path} is in the way: it is no socket, so it is left alone; move it or give another --socket"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise SocketProblem(f"another bootstrap answers on {path}; stop it, or give another --state or --socket")


@contextlib.asynccontextmanager
async def serving(bound: socket.socket, handle: Handle) -> Any:
    """Answer requests until the block ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(_respond(line, handle), separators=(",", ":")).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            return  # The client left, or sent a line over the limit: its connection ends, and that is all.
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, sock=bound, limit=_REQUEST_LIMIT)
    try:
        yield
    finally:
        server.close()


def _respond(line: bytes, handle: Handle) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return refusal("the request is not one line of JSON")
    return handle(request) if isinstance(request, dict) else refusal("the request is not a JSON object")


def refusal(why: str) -> dict[str, Any]:
    return {"ok": False, "error": why}


def ask(path: Path, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
    """One request to a running bootstrap, and its response. Errors: SocketProblem."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout_s)
            client.connect(os.fspath(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            with client.makefile("rb") as lines:
                response = json.loads(lines.readline())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SocketProblem(f"no bootstrap answers on {path}: {why}") from error
    if not isinstance(response, dict):
        raise SocketProblem(f"what answers on {path} is no bootstrap")
    return response
