"""One service kept as its machine says: actions become signals and processes, and what happens becomes events."""

import asyncio
import contextlib
import re
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlsplit

from bootstrap import report
from bootstrap.errors import Problem
from bootstrap.logtap import Journal
from bootstrap.machine import HELPER, STARTING, Action, Event, Fact, Policy, Service, step
from bootstrap.processes import Children

PROBE_LIMIT_S = 3.0
PROBE_EVERY_S = 1.0
STARTING_EVERY_S = 0.25  # someone waits for it
Call = Literal["prepare", "sleep", "wake"]
_ANSWERS: Mapping[str, tuple[Fact, Fact]] = {  # to a call that is done, and to one that fails
    "prepare": ("ready", "refused"),
    "sleep": ("slept", "doomed"),
    "wake": ("answered", "doomed"),
}
_SIGNALS = {"terminate": signal.SIGTERM, "dump": signal.SIGUSR1, "kill": signal.SIGKILL}


@dataclass(frozen=True, slots=True)
class Launch:
    name: report.Source
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    health: str | None = None  # URL that answers 200 when it is well
    silence_s: float | None = None  # or else: how long it may write nothing
    fd: int | None = None  # inherited
    policy: Policy = HELPER
    prepare: Callable[[], Awaitable[None]] | None = None  # what must hold before each start; it raises Problem
    hear: Callable[[str], None] | None = None  # takes what it prints


@dataclass(slots=True)
class Shop:
    """What every keeper works with."""

    children: Children
    journal: Journal
    tasks: asyncio.TaskGroup
    clock: Callable[[], float] = time.monotonic
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # set at the next change of anything's state

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Keeper:
    """All but the probes and calls is synchronous, so events never interleave."""

    def __init__(self, launch: Launch, shop: Shop) -> None:
        self.launch, self.shop, self.service = launch, shop, Service(launch.policy, since=shop.clock())
        self._calling, self._heard_at = False, shop.clock()
        shop.tasks.create_task(self._probe())

    def relaunch(self, launch: Launch) -> None:
        """Run this from now on; a process of another command or environment is replaced."""
        outdated = (launch.argv, launch.env) != (self.launch.argv, self.launch.env)
        self.launch, self.service = launch, replace(self.service, policy=launch.policy)
        if outdated:
            self.post(Event("restart"))

    def keep(self, launch: Launch, *, on: bool = True) -> None:
        """The same, and running or not."""
        self.relaunch(launch)
        if on != (self.service.goal == "run"):
            self.post(Event("run" if on else "rest"))

    def post(self, event: Event | None) -> None:
        """Let the machine see an event, then the event that its own actions lead to."""
        before = self.service
        while event is not None:
            self.service, actions = step(self.service, event, self.shop.clock())
            event = None
            for action in actions:
                event = self._do(action) or event
        after = self.service
        if (after.phase, after.pid) != (before.phase, before.pid):
            level: report.Level = "error" if after.phase in ("backoff", "fatal") else "info"
            self.say(level, after.phase + (f", pid {after.pid}" if after.pid else ""))
            self.shop.tell()

    def tell(self, name: Fact, text: str = "") -> None:
        self.post(Event(name, self.service.pid, text))

    def say(self, level: report.Level, text: str) -> None:
        self.shop.journal.say(level, f"{self.launch.name}: {text}")

    def urge(self) -> None:
        """SIGUSR1: of the hub worker, look and send now."""
        self.shop.children.signal(self.service.pid or 0, signal.SIGUSR1)

    def view(self) -> report.Service:
        service, now = self.service, self.shop.clock()
        return report.Service(
            state=service.phase,
            pid=service.pid,
            since_s=max(0.0, now - service.since),
            restarts=max(0, service.starts - 1),
            draining=len(service.draining),
            last_exit=service.last_exit,
            next_start_s=max(0.0, service.deadline - now) if service.phase == "backoff" else None,
            command=self.shop.journal.redactor.argv(self.launch.argv),
            took_s=service.took_s,
        )

    async def check(self) -> None:
        """Errors: Problem, when it is not well."""
        if self.launch.health:
            await ask(self.launch.health, PROBE_LIMIT_S)
        elif self.launch.silence_s and self.shop.clock() - self._heard_at > self.launch.silence_s:
            raise Problem(f"silent for {self.launch.silence_s:g} s")

    async def call(self, what: Call) -> None:
        """Only an engine sleeps. Errors: Problem."""
        if what == "prepare" and self.launch.prepare:
            await self.launch.prepare()

    def hear(self, line: str, at: float) -> None:
        """A line that its process wrote, redacted."""
        if self.launch.hear:
            self.launch.hear(line)

    def _do(self, action: Action) -> Event | None:
        match action.do:
            case "spawn":
                return self._spawn()
            case "prepare" | "sleep" | "wake" as what:
                self.shop.tasks.create_task(self._call(what, action.pid))
            case "kill":
                self.say("error", f"killing pid {action.pid}: {self.service.condemned or 'it drains for too long'}")
        if number := _SIGNALS.get(action.do):
            self.shop.children.signal(action.pid, number)
        return None

    def _spawn(self) -> Event:
        launch, self._heard_at = self.launch, self.shop.clock()
        tap = self.shop.journal.tap(launch.name, self.shop.clock, self.hear)

        def listen(data: bytes) -> None:
            self._heard_at = self.shop.clock()
            tap(data)

        try:
            return Event("spawned", self.shop.children.spawn(launch.argv, launch.env, listen, self._ended, launch.fd))
        except Problem as problem:
            return Event("exited", None, str(problem))

    def _ended(self, pid: int, how: str) -> None:
        self.say("info", f"pid {pid} ended: {how}")
        self.post(Event("exited", pid, how))

    async def _call(self, what: Call, pid: int) -> None:
        # Meanwhile its answers to probes say nothing.
        (done, failed), self._calling = _ANSWERS[what], True
        try:
            await self.call(what)
            self.post(Event(done, pid))
        except Problem as problem:
            self.post(Event(failed, pid, f"{what}: {problem}" if failed == "doomed" else str(problem)))
        finally:
            self._calling = False

    async def _probe(self) -> None:
        # Ask for health for ever.
        told = None
        while True:
            pid, phase = self.service.pid, self.service.phase
            if pid is not None and not self._calling and phase in (*STARTING, "serving", "draining"):
                try:
                    await self.check()
                    fault = None
                except Problem as problem:
                    fault = str(problem)
                if phase == "serving" and fault != told:
                    self.say("warning" if fault else "info", fault or "answers again")
                told = fault
                self.post(Event("silent" if fault else "answered", pid, fault or ""))
            await asyncio.sleep(PROBE_EVERY_S if phase == "serving" else STARTING_EVERY_S)


async def ask(url: str, limit_s: float, method: str = "GET") -> bytes:
    """The body of a 200. Errors: Problem, why not in a few words."""
    where = urlsplit(url)
    target = url.partition(where.netloc)[2]
    head = f"{method} {target} HTTP/1.0\r\nHost: {where.netloc}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            with contextlib.closing(writer):
                writer.write(head.encode())
                answer, _, body = (await reader.read()).partition(b"\r\n\r\n")
    except TimeoutError as error:
        raise Problem(f"{target}: no answer in {limit_s:g} s") from error
    except (OSError, ValueError) as error:
        raise Problem(f"{target}: {getattr(error, 'strerror', None) or error}") from error
    status = answer.partition(b"\r\n")[0].decode(errors="replace").strip()
    if not re.match(r"HTTP/1.\d 200\b", status):
        raise Problem(f"{target}: answers {status[:40]!r}")
    return body
