"""A program of the front that is kept running, and dies with it. The only file of the front that starts processes."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from control.fleet.models import ProgramStatus

BACKOFF_S = (0.2, 1.0, 3.0, 10.0)
STEADY_S = 30.0
"""A program that ran for so long begins its backoff anew."""

LOG_MOST = 8 * 1024 * 1024

_PR_SET_PDEATHSIG = 1

Start = Callable[[], tuple[tuple[str, ...], dict[str, str], tuple[int, ...]]]
"""argv, environment, and the descriptors that are handed down."""


@dataclass(slots=True)
class Program:
    name: Literal["bridge", "router"]
    log: Path
    start: Start
    may_start: Callable[[], bool]
    starts: int = 0
    last_exit: str | None = None
    process: asyncio.subprocess.Process | None = None

    async def keep(self) -> None:
        """Start it whenever it has ended, for ever. Raises OSError when it cannot be started at all."""
        failures = 0
        while True:
            while not self.may_start():  # noqa: ASYNC110 - what it looks at is polled itself
                await asyncio.sleep(0.1)
            began = time.monotonic()
            with _log(self.log) as out:
                await self._spawn(out)
            process = self.process
            assert process is not None
            code = await process.wait()
            self.last_exit = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
            self.process = None
            failures = 1 if time.monotonic() - began > STEADY_S else failures + 1
            await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S)) - 1])

    async def _spawn(self, out: IO[bytes]) -> None:
        argv, env, fds = self.start()
        self.starts += 1
        self.process = await asyncio.create_subprocess_exec(
            *argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=fds,
            start_new_session=True,
            preexec_fn=functools.partial(_die_with, os.getpid()),
        )

    async def end(self, times: int, within_s: float) -> None:
        """SIGTERM so many times, then SIGKILL. To be called once `keep` has been cancelled."""
        process = self.process
        if process is None:
            return
        with suppress(ProcessLookupError, TimeoutError):
            for _ in range(times):
                process.terminate()
                await asyncio.sleep(0.1)
            await asyncio.wait_for(process.wait(), within_s)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    def status(self) -> ProgramStatus:
        return ProgramStatus(self.name, self.process is not None, max(0, self.starts - 1), self.last_exit)


def _log(path: Path) -> IO[bytes]:
    """Appended to; begun anew, with the old one kept, when it has grown too large."""
    if path.exists() and path.stat().st_size > LOG_MOST:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def _die_with(parent: int) -> None:
    """In the child: Linux kills it when its parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
