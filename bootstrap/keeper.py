"""Does what one service's machine asks for, and tells it what came of that. An edge: machine.py decides, this acts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from bootstrap import probes, report
from bootstrap.events import (
    Action,
    Event,
    Exited,
    HealthFailed,
    HealthOk,
    Kill,
    Report,
    Retire,
    Spawn,
    Spawned,
    SpawnFailed,
    Terminate,
)
from bootstrap.logtap import Journal
from bootstrap.machine import step
from bootstrap.processes import Children, kill
from bootstrap.service import Policy, Service, view

PROBE_TIMEOUT_S = 2.0
_BURIAL_S = 5.0
"""How long to wait for what a dead engine leaves behind: its workers hold the GPU's memory until they are gone."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a service is started and asked for its health."""

    name: Literal["engine", "bridge"]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    address: str
    port: int
    health: str
    """Path that answers 200 when it is well."""
    owns_orphans: bool
    """Processes that its death hands down to us are its own, and must go before it is started again."""
    pass_fds: tuple[int, ...] = ()


class Keeper:
    """One service, kept. Everything but probe() and the burial is synchronous, so events never interleave."""

    def __init__(
        self,
        launch: Launch,
        policy: Policy,
        children: Children,
        journal: Journal,
        tasks: asyncio.TaskGroup,
        clock: Callable[[], float],
    ) -> None:
        self.launch = launch
        self.service = Service(launch.name, policy, since=clock())
        self.stopped = asyncio.Event()
        """Set once it is stopped for good."""
        self._children, self._journal, self._tasks, self._clock = children, journal, tasks, clock
        self._events: deque[Event] = deque()
        self._stepping = False

    def post(self, event: Event) -> None:
        """Let the machine see an event, then all the events that its own actions lead to."""
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events:
                self.service, actions = step(self.service, self._events.popleft(), self._clock())
                for action in actions:
                    self._do(action)
        finally:
            self._stepping = False
        if self.service.phase == "stopped" and self.service.halted:
            self.stopped.set()

    def view(self, command: tuple[str, ...]) -> report.Service:
        return view(self.service, command, self._clock())

    async def probe(self, every_s: float = 1.0, starting_every_s: float = 0.25) -> None:
        """Ask for health for ever; while it starts, more often, since someone waits for it."""
        launch = self.launch
        while True:
            pid = self.service.pid
            if pid is not None and self.service.phase in ("starting", "serving"):
                reason = await probes.get(launch.address, launch.port, launch.health, PROBE_TIMEOUT_S)
                self.post(HealthOk(pid) if reason is None else HealthFailed(pid, f"{launch.health}: {reason}"))
            await asyncio.sleep(every_s if self.service.phase == "serving" else starting_every_s)

    def _do(self, action: Action) -> None:
        match action:
            case Spawn():
                self._events.append(self._spawn())
            case Terminate(pid) | Retire(pid):
                self._children.terminate(pid)
            case Kill(pid):
                self._children.kill(pid)
            case Report(level, line):
                self._journal.say(level, line)
            case _:
                assert_never(action)

    def _spawn(self) -> Event:
        launch = self.launch
        tap = self._journal.tap(launch.name, self._clock)
        try:
            return Spawned(self._children.spawn(launch.argv, launch.env, tap, self._ended, launch.pass_fds))
        except OSError as error:
            return SpawnFailed(f"cannot start {launch.argv[0]}: {error.strerror or error}")

    def _ended(self, pid: int, description: str) -> None:
        self._tasks.create_task(self._bury(pid, description))

    async def _bury(self, pid: int, description: str) -> None:
        """The machine hears of a death when nothing is left of the process that could hold memory or a port."""
        until = self._clock() + _BURIAL_S
        while left := self._children.remains(pid, orphans=self.launch.owns_orphans):
            kill(left)
            if self._clock() > until:
                self._journal.say("error", f"{self.launch.name}: cannot get rid of {sorted(left)} that it left behind")
                break
            await asyncio.sleep(0.05)
        self.post(Exited(pid, description))
