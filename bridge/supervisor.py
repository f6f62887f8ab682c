"""The only file that speaks to the pod's supervisor: one JSON line there, one back, over its unix socket."""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from bridge.errors import SupervisorUnreachable

ANSWER_S = 0.5
MAX_LINE = 16 * 1024 * 1024  # bytes of one answer: 500 log lines fit many times


@dataclass
class Supervisor:
    """`path` is its socket's; None when this bridge runs without one."""

    path: str | None

    async def ask(self, command: Mapping[str, Any], within_s: float = ANSWER_S) -> dict[str, Any]:
        """One command and its answer, which said ok. Raises SupervisorUnreachable for anything else."""
        if self.path is None:
            raise SupervisorUnreachable("this bridge runs without a supervisor")
        try:
            async with asyncio.timeout(within_s):
                reader, writer = await asyncio.open_unix_connection(self.path, limit=MAX_LINE)
                with closing(writer):
                    writer.write(msgspec.json.encode(command) + b"\n")
                    line = await reader.readuntil(b"\n")
            answer = msgspec.json.decode(line, type=dict[str, Any])
        except TimeoutError as cause:
            raise SupervisorUnreachable(f"the supervisor did not answer within {within_s} s") from cause
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, msgspec.DecodeError) as cause:
            raise SupervisorUnreachable(f"the supervisor's socket: {cause or type(cause).__name__}") from cause
        if not answer.get("ok"):
            raise SupervisorUnreachable(f"the supervisor refused: {answer.get('error') or 'no reason given'}")
        return answer

    async def status(self, log_after: int) -> tuple[dict[str, Any] | None, str | None]:
        """Its status, or why there is none."""
        try:
            status = (await self.ask({"cmd": "status", "log_after": log_after})).get("status")
        except SupervisorUnreachable as error:
            return None, error.message
        return (status, None) if isinstance(status, dict) else (None, "the supervisor's answer has no status")
