"""Bootstrap's unix socket on this machine: how an embedded pod is reached when its bridge does not answer."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from control.ctl import Request, Response, answer, line
from control.errors import Unreachable

ASK_S = 6.0
MAX_LINE = 16 * 1024 * 1024
"""Bytes of one response: 500 log lines fit many times."""


async def ask(path: Path, request: Request) -> Response:
    """One question to the supervisor. Raises Refused with its own words, Unreachable."""
    try:
        async with asyncio.timeout(ASK_S):
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE)
            with closing(writer):
                writer.write(line(request))
                return answer(await reader.readline(), str(path))
    except TimeoutError as error:
        raise Unreachable(f"the supervisor did not answer within {ASK_S:g} s") from error
    except (OSError, ValueError) as error:
        raise Unreachable(f"no supervisor answers on {path}: {getattr(error, 'strerror', None) or error}") from error
