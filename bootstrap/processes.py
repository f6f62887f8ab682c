"""The pod's processes: spawned, signalled, reaped, kept as their machines say. An edge, and the only one that forks."""

import asyncio
import contextlib
import ctypes
import functools
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal
from urllib.parse import urlsplit

from bootstrap import machine, report
from bootstrap.errors import Problem, failing_as
from bootstrap.logtap import Journal
from bootstrap.machine import Policy

PROBE_LIMIT_S = 3.0
_LEVELS: dict[report.ServiceState, report.Level] = {"backoff": "error", "fatal": "error"}
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl, which Linux alone has
_LIBC = ctypes.CDLL(None, use_errno=True)
_SIGNALS = {number.value: number.name for number in signal.Signals}

Clock = Callable[[], float]
OnOutput = Callable[[bytes], None]  # takes what was written; b"" at the end of the pipe
OnExit = Callable[[int, str], None]  # takes the pid and how it ended


def describe(status: int) -> str:
    """A wait status in words: "killed by SIGKILL", "exit code 1"."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"killed by {_SIGNALS.get(-code, f'signal {-code}')}"


def living() -> dict[int, int]:
    """Every process that is not a zombie, and its parent."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = Path("/proc", pid, "stat").read_text(errors="replace")
            state, parent = stat.rpartition(")")[2].split()[:2]  # The name, in parentheses, may hold anything.
            if state not in "ZX":
                found[int(pid)] = int(parent)
    return found


def descendants(roots: Iterable[int], table: Mapping[int, int]) -> set[int]:
    """The roots and all that descend from them, whatever group or session they have moved to."""
    found, more = set[int](), set(roots)
    while more:
        found |= more
        more = {pid for pid, parent in table.items() if parent in more} - found
    return found


def _die_with(parent: int) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class Children:
    def __init__(self) -> None:
        """In a running loop. Orphans of our children become our children, also when we are not PID 1."""
        self._on_exit: dict[int, OnExit] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGCHLD, self.reap)
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def spawn(
        self, argv: tuple[str, ...], env: Mapping[str, str], on_output: OnOutput, on_exit: OnExit, fd: int | None = None
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
                pass_fds=() if fd is None else (fd,),
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
        """On SIGCHLD: collect all that ended: our children, and the orphans that we, as PID 1 or subreaper, inherit."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if on_exit := self._on_exit.pop(ended[0], None):
                    on_exit(ended[0], describe(ended[1]))

    def signal(self, pid: int, number: signal.Signals) -> None:
        """To one of our children, if it has not been reaped."""
        if pid in self._on_exit:
            os.kill(pid, number)

    def kill_orphans(self) -> set[int]:
        """SIGKILL to what our ended children left, which we have inherited: those that were still alive."""
        table, ours = living(), os.getpid()
        orphans = descendants((pid for pid, up in table.items() if up == ours and pid not in self._on_exit), table)
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return orphans

    async def output(self, argv: tuple[str, ...], env: Mapping[str, str], limit_s: float) -> str:
        """What a program prints until it closes its output. Errors: Problem, also when that takes too long."""
        chunks: list[bytes] = []
        closed = asyncio.Event()
        pid = self.spawn(argv, env, lambda data: chunks.append(data) if data else closed.set(), lambda *_: None)
        try:
            await asyncio.wait_for(closed.wait(), limit_s)
        except TimeoutError as error:
            raise Problem(f"{argv[0]}: no answer in {limit_s:g} s") from error
        finally:
            self.signal(pid, signal.SIGKILL)
        return b"".join(chunks).decode(errors="replace")

    async def sweep(self, limit_s: float) -> set[int]:
        """SIGKILL every descendant of ours until none lives, or time is up; whoever is left is returned."""
        self._on_exit.clear()
        until = self._loop.time() + limit_s
        while (left := self.kill_orphans()) and self._loop.time() < until:
            await asyncio.sleep(0.02)
            self.reap()
        return left


@dataclass(frozen=True, slots=True)
class Launch:
    name: Literal["engine", "bridge"]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    health: str  # URL that answers 200 when it is well
    fd: int | None = None  # inherited


class Keeper:
    """One service, kept. Everything but probe() is synchronous, so events never interleave."""

    def __init__(
        self, launch: Launch, policy: Policy, children: Children, journal: Journal, clock: Clock = time.monotonic
    ) -> None:
        self.launch, self.service = launch, machine.Service(policy, since=clock())
        self.shown = journal.redactor.argv(launch.argv)
        self.stopped = asyncio.Event()  # set once it is stopped for good
        self._children, self._journal, self._clock = children, journal, clock

    def post(self, event: machine.Event | None) -> None:
        """Let the machine see an event, then the event that its own actions lead to."""
        before = self.service
        while event is not None:
            self.service, actions = machine.step(self.service, event, self._clock())
            event = None
            for action in actions:
                event = self._do(action)
        after = self.service
        if (after.phase, after.pid) != (before.phase, before.pid):
            self._say(_LEVELS.get(after.phase, "info"), after.phase + (f", pid {after.pid}" if after.pid else ""))
        if after.phase == "stopped" and after.halted:
            self.stopped.set()

    def view(self) -> report.Service:
        service, now = self.service, self._clock()
        return report.Service(
            state=service.phase,
            pid=service.pid,
            since_s=max(0.0, now - service.since),
            restarts=max(0, service.starts - 1),
            draining=len(service.draining),
            last_exit=service.last_exit,
            next_start_s=max(0.0, service.deadline - now) if service.phase == "backoff" else None,
            command=self.shown,
        )

    async def probe(self, every_s: float = 1.0, starting_every_s: float = 0.25) -> None:
        """Ask for health for ever; while it starts, more often, since someone waits for it."""
        told = None
        while True:
            pid, serving = self.service.pid, self.service.phase == "serving"
            if pid is not None and (serving or self.service.phase == "starting"):
                fault = await get(self.launch.health, PROBE_LIMIT_S)
                if serving and fault != told:
                    self._say("warning" if fault else "info", fault or "answers again")
                told = fault
                self.post(machine.Probed(pid, fault))
            await asyncio.sleep(every_s if serving else starting_every_s)

    def _do(self, action: machine.Action) -> machine.Event | None:
        if action.do == "spawn":
            return self._spawn()
        if action.do == "kill":
            self._say("error", f"killing pid {action.pid}: {self.service.condemned or 'it drains for too long'}")
        self._children.signal(action.pid, signal.SIGKILL if action.do == "kill" else signal.SIGTERM)
        return None

    def _spawn(self) -> machine.Event:
        launch, tap = self.launch, self._journal.tap(self.launch.name, self._clock)
        try:
            return machine.Spawned(self._children.spawn(launch.argv, launch.env, tap, self._ended, launch.fd))
        except Problem as problem:
            return machine.Exited(None, str(problem))

    def _ended(self, pid: int, how: str) -> None:
        """A dead engine's workers would hold the GPU's memory; a dead bridge has no children."""
        if self.launch.name == "engine":
            self._children.kill_orphans()
        self._say("info", f"pid {pid} ended: {how}")
        self.post(machine.Exited(pid, how))

    def _say(self, level: report.Level, text: str) -> None:
        self._journal.say(level, f"{self.launch.name}: {text}")


async def get(url: str, limit_s: float) -> str | None:
    """GET over a connection of its own: None when it answers 200, else why not, in a few words."""
    where = urlsplit(url)
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            with contextlib.closing(writer):
                writer.write(f"GET {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n".encode())
                answer = (await reader.readline()).decode(errors="replace").strip()
    except TimeoutError:
        return f"{where.path}: no answer in {limit_s:g} s"
    except (OSError, ValueError) as error:
        return f"{where.path}: {getattr(error, 'strerror', None) or error}"
    return None if re.match(r"HTTP/1.\d 200\b", answer) else f"{where.path}: answers {answer[:40]!r}"
