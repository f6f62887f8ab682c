"""The pod's processes: spawned, signalled, reaped, with all that descends from them. An edge: it alone forks."""

import asyncio
import contextlib
import ctypes
import functools
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from bootstrap.errors import Problem, failing_as

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl, which Linux alone has
_LIBC = ctypes.CDLL(None, use_errno=True)
_SIGNALS = {number.value: number.name for number in signal.Signals}
_MARK = "SUPERVISED_AS"  # in the environment of a child, and so of all that it starts

OnOutput = Callable[[bytes], None]  # takes what was written; b"" at the end of the pipe
OnExit = Callable[[int, str], None]  # takes the pid and how it ended


class Process(NamedTuple):
    parent: int
    name: str
    started: str  # in clock ticks since the host's start: with the pid, it names one process for ever


def describe(status: int) -> str:
    """A wait status in words: "killed by SIGKILL", "exit code 1"."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"killed by {_SIGNALS.get(-code, f'signal {-code}')}"


def living() -> dict[int, Process]:
    """Every process that is not a zombie."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            head, _, stat = Path("/proc", pid, "stat").read_text(errors="replace").rpartition(")")
            fields = stat.split()
            if fields[0] not in "ZX":
                found[int(pid)] = Process(int(fields[1]), head.partition("(")[2], fields[19])
    return found


def descendants(roots: Iterable[int], table: Mapping[int, Process]) -> set[int]:
    """The roots and all that descend from them, whatever group or session they have moved to."""
    found, more = set[int](), set(roots)
    while more:
        found |= more
        more = {pid for pid, process in table.items() if process.parent in more} - found
    return found


def _die_with(parent: int) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _is_marked(pid: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        return f"{_MARK}={mark}".encode() in Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    return False


@dataclass(slots=True)
class _Child:
    on_exit: OnExit
    mark: str
    kin: Mapping[int, Process] = field(default_factory=dict)  # what was seen to descend from it


class Children:
    """All that was spawned. Whatever a child leaves behind when it ends is killed; nobody else's process ever is."""

    def __init__(self) -> None:
        # In a running loop. Orphans of our children become our children, also when we are not PID 1.
        self._children: dict[int, _Child] = {}
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGCHLD, self.reap)
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def spawn(
        self, argv: tuple[str, ...], env: Mapping[str, str], on_output: OnOutput, on_exit: OnExit, fd: int | None = None
    ) -> int:
        """Start a process in a session of its own, both outputs in one pipe. It dies with us. Errors: Problem."""
        self._count += 1
        child = _Child(on_exit, f"{os.getpid()}-{self._count}")
        with failing_as(f"cannot start {argv[0]}"):
            process = subprocess.Popen(
                argv,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**env, _MARK: child.mark},
                pass_fds=() if fd is None else (fd,),
                start_new_session=True,
                preexec_fn=functools.partial(_die_with, os.getpid()),
            )
        process.returncode = 0  # Popen must never wait for it: reap() does.
        self._children[process.pid] = child
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
        """On SIGCHLD: collect all that ended: our children, and the orphans that we, as PID 1 or subreaper, inherit."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if child := self._children.pop(ended[0], None):
                    self._kill(self._left_by(child))
                    child.on_exit(ended[0], describe(ended[1]))

    def signal(self, pid: int, number: signal.Signals) -> None:
        """To one of our children, if it has not been reaped."""
        if pid in self._children:
            os.kill(pid, number)

    def look(self) -> None:
        """To be called every second: who descends from whom, while that can be seen: an orphan's parent is us."""
        table = living()
        for pid, child in self._children.items():
            child.kin = {each: table[each] for each in descendants({pid, *child.kin}, table) if each in table}

    def names(self, pid: int) -> frozenset[str]:
        """The names of what descended from a child at the last look."""
        child = self._children.get(pid)
        return frozenset(process.name for process in child.kin.values()) if child else frozenset()

    def _left_by(self, child: _Child) -> set[int]:
        # What lives of an ended child's descendants: seen before, or else known by the mark that they inherited.
        table = living()
        seen = {each for each, known in child.kin.items() if each in table and table[each].started == known.started}
        ours = {each for each, process in table.items() if process.parent == os.getpid() and each not in self._children}
        return descendants({*seen, *(each for each in ours if _is_marked(each, child.mark))}, table)

    def _kill(self, pids: set[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def run(self, argv: tuple[str, ...], env: Mapping[str, str], limit_s: float) -> str:
        """What a program prints. Errors: Problem, when it fails or takes too long."""
        chunks: list[bytes] = []
        closed, ended = asyncio.Event(), self._loop.create_future()

        def hear(data: bytes) -> None:
            chunks.append(data)
            if not data:
                closed.set()

        pid = self.spawn(argv, env, hear, lambda _, how: ended.set_result(how))
        late = self._loop.call_later(limit_s, self.signal, pid, signal.SIGKILL)
        how = await ended  # and then all that it left is killed, so that the pipe closes
        await closed.wait()
        text = b"".join(chunks).decode(errors="replace")
        if self._loop.time() >= late.when():
            raise Problem(f"{argv[0]}: no answer in {limit_s:g} s")
        late.cancel()
        if how != "exit code 0":
            raise Problem(f"{argv[0]}: {how}: {text.strip()[-300:]}")
        return text

    async def sweep(self, limit_s: float) -> set[int]:
        """SIGKILL every descendant of ours until none lives, or time is up; whoever is left is returned."""
        self._children.clear()
        until = self._loop.time() + limit_s
        while (left := descendants({os.getpid()}, living()) - {os.getpid()}) and self._loop.time() < until:
            self._kill(left)
            await asyncio.sleep(0.02)
            self.reap()
        return left
