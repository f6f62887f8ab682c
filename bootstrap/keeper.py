"""Does what one service's machine asks for, and tells it what came of that. An edge: machine.py decides, this acts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from bootstrap import machine, report
from bootstrap.errors import Problem
from bootstrap.logtap import Journal
from bootstrap.processes import Children, kill

PROBE_LIMIT_S = 3.0
_BURIAL_S = 5.0  # how long a dead engine's workers are waited for: they hold the GPU's memory until they are gone
_LEVELS: dict[report.ServiceState, report.Level] = {"backoff": "error", "fatal": "error"}


@dataclass(frozen=True, slots=True)
class Launch:
    """How a service is started and asked for its health."""

    name: Literal["engine", "bridge"]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    health: str  # URL that answers 200 when it is well
    pass_fds: tuple[int, ...] = ()


class Keeper:
    """One service, kept. Everything but probe() is synchronous, so events never interleave."""

    def __init__(
        self,
        launch: Launch,
        policy: machine.Policy,
        children: Children,
        journal: Journal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.launch, self.service = launch, machine.Service(policy, since=clock())
        self.shown = journal.redactor.argv(launch.argv)
        self.stopped = asyncio.Event()  # set once it is stopped for good
        self._children, self._journal, self._clock = children, journal, clock
        self._dead: dict[int, tuple[str, float]] = {}  # pid -> how it ended, and until when its burial may last

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

    def tick(self) -> None:
        """The machine hears of a death when nothing is left of the process that could hold memory or a port."""
        for pid, (how, until) in list(self._dead.items()):
            left = self._children.orphans() if self.launch.name == "engine" else set()
            kill(left)
            if not left or self._clock() >= until:
                del self._dead[pid]
                self._say("info", f"pid {pid} ended: {how}" + (f"; {sorted(left)} of it still live" if left else ""))
                self.post(machine.Exited(pid, how))
        self.post(machine.Tick())

    def view(self) -> report.Service:
        """The service as it is told to others."""
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
        match action.do:
            case "spawn":
                return self._spawn()
            case "terminate":
                self._children.terminate(action.pid)
            case "kill":
                self._say("error", f"killing pid {action.pid}: {self.service.condemned or 'it drains for too long'}")
                self._children.kill(action.pid)
        return None

    def _spawn(self) -> machine.Event:
        launch, tap = self.launch, self._journal.tap(self.launch.name, self._clock)
        try:
            return machine.Spawned(self._children.spawn(launch.argv, launch.env, tap, self._ended, launch.pass_fds))
        except Problem as problem:
            return machine.Exited(None, str(problem))

    def _ended(self, pid: int, how: str) -> None:
        self._dead[pid] = how, self._clock() + _BURIAL_S
        self.tick()

    def _say(self, level: report.Level, text: str) -> None:
        self._journal.say(level, f"{self.launch.name}: {text}")


async def get(url: str, limit_s: float) -> str | None:
    """GET over a connection of its own: None when it answers 200, else why not, in a few words."""
    where = urlsplit(url)
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            try:
                writer.write(f"GET {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n".encode())
                protocol, _, status = (await reader.readline()).decode(errors="replace").partition(" ")
            finally:
                writer.close()
    except TimeoutError:
        return f"{where.path}: no answer in {limit_s:g} s"
    except (OSError, ValueError) as error:
        return f"{where.path}: {getattr(error, 'strerror', None) or error}"
    if not protocol.startswith("HTTP/1."):
        return f"{where.path}: closed without an HTTP answer"
    return None if status.startswith("200") else f"{where.path}: HTTP {status[:3]}"
