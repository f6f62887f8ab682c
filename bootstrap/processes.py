"""Child processes: spawn, signal, reap, and find what they leave behind. An edge: the only file that forks. Linux only.

One reaper, waitpid(-1), serves the children that we started and the orphans that we, as PID 1 or subreaper, inherit.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

from bootstrap.errors import Problem, failing_as

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None, use_errno=True)

OnOutput = Callable[[bytes], None]  # takes what was written; b"" at the end of the pipe
OnExit = Callable[[int, str], None]  # takes the pid and how it ended


def describe(status: int) -> str:
    """A wait status in words: "killed by SIGKILL", "exit code 1"."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"killed by {known.get(-code, f'signal {-code}')}"


def state_and_parent(stat: str) -> tuple[str, int]:
    """Of /proc/<pid>/stat. The command's name, in parentheses, may hold anything, parentheses too."""
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)


def living() -> dict[int, int]:
    """Every process that is not a zombie, and its parent."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, parent = state_and_parent(Path("/proc", entry, "stat").read_text(errors="replace"))
            if state not in "ZX":
                found[int(entry)] = parent
    return found


def descendants(roots: Iterable[int], table: Mapping[int, int]) -> set[int]:
    """The roots and all that descend from them, whatever group or session they have moved to."""
    found: set[int] = set()
    more = set(roots)
    while more:
        found |= more
        more = {pid for pid, parent in table.items() if parent in more} - found
    return found


def kill(pids: Iterable[int]) -> None:
    """SIGKILL to each that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _die_with(parent: int) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class Children:
    """The children that we started and have not reaped."""

    def __init__(self) -> None:
        """In a running loop. Orphans of our children become our children, also when we are not PID 1."""
        self._on_exit: dict[int, OnExit] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGCHLD, self.reap)
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def spawn(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        on_output: OnOutput,
        on_exit: OnExit,
        fds: tuple[int, ...] = (),
    ) -> int:
        """Start a process in a session of its own, both outputs in one pipe. It dies with us. Errors: Problem."""
        with failing_as(f"cannot start {argv[0]}"):
            process = subprocess.Popen(
                argv,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=env,
                pass_fds=fds,
                start_new_session=True,
                preexec_fn=functools.partial(_die_with, os.getpid()),
            )
        process.returncode = 0  # Popen must never wait for it: reap() does.
        self._on_exit[process.pid] = on_exit
        if pipe := process.stdout:
            self._loop.add_reader(pipe, self._read, pipe, on_output)
        return process.pid

    def _read(self, pipe: IO[bytes], on_output: OnOutput) -> None:
        data = pipe.read(65_536)
        if not data:
            self._loop.remove_reader(pipe)
            pipe.close()
        on_output(data)

    def reap(self) -> None:
        """On SIGCHLD: collect all that have ended, orphans included."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if on_exit := self._on_exit.pop(pid, None):
                    on_exit(pid, describe(status))

    def terminate(self, pid: int) -> None:
        """SIGTERM to one of our children, if it has not been reaped."""
        if pid in self._on_exit:
            os.kill(pid, signal.SIGTERM)

    def kill(self, pid: int) -> None:
        """SIGKILL to one of our children and to all that descend from it."""
        if pid in self._on_exit:
            kill(descendants([pid], living()))

    def orphans(self) -> set[int]:
        """What lives of the children that have ended, wherever it has moved to: we have inherited it."""
        table, ours = living(), os.getpid()
        return descendants((pid for pid, up in table.items() if up == ours and pid not in self._on_exit), table)

    async def output(self, argv: tuple[str, ...], env: Mapping[str, str], limit_s: float) -> str:
        """What a program prints until it closes its output. Errors: Problem, also when that takes too long."""
        chunks: list[bytes] = []
        closed = asyncio.Event()
        pid = self.spawn(argv, env, lambda data: chunks.append(data) if data else closed.set(), lambda *_: None)
        try:
            async with asyncio.timeout(limit_s):
                await closed.wait()
        except TimeoutError as error:
            raise Problem(f"{argv[0]}: no answer in {limit_s:g} s") from error
        finally:
            self.kill(pid)
        return b"".join(chunks).decode(errors="replace")

    async def sweep(self, limit_s: float) -> set[int]:
        """SIGKILL every descendant of ours until none lives, or time is up; whoever is left is returned."""
        self._on_exit.clear()
        until = self._loop.time() + limit_s
        while (left := self.orphans()) and self._loop.time() < until:
            kill(left)
            await asyncio.sleep(0.02)
            self.reap()
        self.reap()
        return left
