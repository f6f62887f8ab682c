"""Child processes: spawn, signal, reap, and find what they leave behind. An edge: the only file that forks. Linux only.

One reaper, waitpid(-1), serves the children that we started and the orphans that PID 1 (or a subreaper) inherits.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)

OnOutput = Callable[[bytes], None]
"""Takes what was written; b"" at the end of the pipe."""
OnExit = Callable[[int, str], None]
"""Takes the pid and how it ended."""


def become_subreaper() -> None:
    """Orphans of our children become our children, also when we are not PID 1."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def describe(status: int) -> str:
    """A wait status in words: "killed by SIGKILL", "exit code 1"."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat."""

    pid: int
    state: str
    parent: int
    group: int
    session: int


def parse_stat(text: str) -> Process:
    """The command's name, in parentheses, may hold anything, parentheses too. Errors: ValueError."""
    head, _, tail = text.rpartition(")")
    state, parent, group, session = tail.split()[:4]
    return Process(int(head.split(" ", 1)[0]), state, int(parent), int(group), int(session))


def living() -> list[Process]:
    """Every process that is not a zombie."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.append(parse_stat(Path(entry.path, "stat").read_text(errors="replace")))
    return [process for process in found if process.state not in "ZX"]


def with_descendants(roots: Iterable[int], table: Iterable[Process]) -> set[int]:
    """The roots and all that descend from them, whatever group or session they have moved to."""
    children: dict[int, list[int]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, ())
    return found


def kill(pids: Iterable[int]) -> None:
    """SIGKILL to each that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Children:
    """The children that we started and have not reaped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._on_exit: dict[int, OnExit] = {}

    def spawn(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        on_output: OnOutput,
        on_exit: OnExit,
        pass_fds: tuple[int, ...] = (),
    ) -> int:
        """Start a process in a session of its own, both outputs in one pipe. It dies with us. Errors: OSError."""
        ours = os.getpid()

        def die_with_parent() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != ours:
                os._exit(1)

        output, their_output = os.pipe()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=their_output,
                stderr=their_output,
                env=env,
                pass_fds=pass_fds,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        except OSError:
            os.close(output)
            raise
        finally:
            os.close(their_output)
        process.returncode = 0  # Popen must never wait for it: reap() does.
        self._on_exit[process.pid] = on_exit
        self._pump(output, on_output)
        return process.pid

    def _pump(self, fd: int, on_output: OnOutput) -> None:
        os.set_blocking(fd, False)

        def ready() -> None:
            try:
                data = os.read(fd, 65_536)
            except BlockingIOError:
                return
            if not data:
                self._loop.remove_reader(fd)
                os.close(fd)
            on_output(data)

        self._loop.add_reader(fd, ready)

    def reap(self) -> None:
        """On SIGCHLD: collect all that have ended, orphans included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if on_exit := self._on_exit.pop(pid, None):
                on_exit(pid, describe(status))

    def terminate(self, pid: int) -> None:
        """SIGTERM to one of our children, if it has not been reaped."""
        if pid in self._on_exit:
            os.kill(pid, signal.SIGTERM)

    def kill(self, pid: int) -> None:
        """SIGKILL to one of our children and to all that descend from it."""
        if pid in self._on_exit:
            kill(with_descendants([pid], living()))

    def remains(self, pid: int, *, orphans: bool) -> set[int]:
        """What lives of a child that has ended: its group and session, and with `orphans` all that we inherited."""
        table, ours = living(), os.getpid()
        roots = {process.pid for process in table if pid in (process.session, process.group)}
        if orphans:
            roots |= {process.pid for process in table if process.parent == ours and process.pid not in self._on_exit}
        return with_descendants(roots, table)

    async def sweep(self, limit_s: float) -> set[int]:
        """SIGKILL every descendant of ours until none lives, or time is up; whoever is left is returned."""
        self._on_exit.clear()
        until = self._loop.time() + limit_s
        ours = os.getpid()
        while True:
            left = with_descendants([ours], living()) - {ours}
            if not left or self._loop.time() > until:
                self.reap()
                return left
            kill(left)
            await asyncio.sleep(0.02)
            self.reap()
