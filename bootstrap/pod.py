"""The pod whole: what runs by the config in force, which model is awake, and when the pod stops itself."""

import asyncio
import base64
import itertools
import json
import math
import signal
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from bootstrap import idle, launches
from bootstrap.command import TOKENS, sleeps
from bootstrap.errors import Problem, failing_as
from bootstrap.fleet import Fleet
from bootstrap.keeper import Keeper, Launch, Shop
from bootstrap.launches import Settings
from bootstrap.machine import BRIDGE, ENGINE, HELPER, Event
from bootstrap.preparing import Preparing
from bootstrap.published import Published
from bootstrap.redact import Redactor, secret_values
from bootstrap.spec import PodSpec

TICK_S = 0.25


class Pod:
    def __init__(self, settings: Settings, shop: Shop, listener: socket.socket) -> None:
        self.settings, self.shop, self.listener, self.stop = settings, shop, listener, asyncio.Event()
        self.published = Published(settings.state, settings.environ)
        self.preparing = Preparing(settings, shop)
        self.fleet = Fleet(shop)
        self.bridge: Keeper | None = None
        self.helpers: dict[str, Keeper] = {}  # hub, desktop
        self.watchers: dict[object, tuple[int, int]] = {}  # what each bridge that watches tells: live turns, clients
        self.idle, self.countdown = idle.Idle(shop.clock()), idle.Countdown(math.inf, False, False)
        self.stopping, self._cried, self._ports = False, False, dict[str, int]()
        self._preloaded: PodSpec | None = None
        self._hub_said, self._looked = dict[str, str](), asyncio.Event()

    @property
    def live(self) -> int | None:
        return sum(live for live, _ in self.watchers.values()) if self.watchers else None

    # The config in force.

    def begin(self) -> None:
        """Errors: Problem, when the file that is the config cannot be used."""
        if self.settings.hub is None:
            self.read_file()
        else:
            self.shop.journal.say("info", f"waiting for pod.toml at {self.settings.hub}")
            self.keep_worker()

    def read_file(self) -> None:
        with failing_as(f"cannot read the config {self.settings.config}"):
            body = (self.settings.config or Path()).read_bytes()
        self.take(body, None, None)

    def read_incoming(self) -> None:
        """What the hub worker has fetched. Errors: Problem."""
        with failing_as("cannot read what the hub worker fetched"):
            told = json.loads((self.settings.state / "incoming.json").read_bytes())
        self.take(base64.b64decode(told["body"]), told["commit"], told["signature"] or "")

    def take(self, body: bytes, commit: str | None, signature: str | None) -> None:
        """Bring a config into force, and keep what runs where it must be refused. Errors: Problem."""
        self._bring_in(self.published.take(body, commit, time.time(), signature))

    def _bring_in(self, before: PodSpec | None) -> None:
        spec, applied = self.published.spec, self.published.applied
        if spec is None or applied is None or spec is before:
            return
        said = "; ".join((applied.plan, *applied.reasons))
        self.shop.journal.say("info", f"config: serial {spec.serial}, model {spec.serve.model}: {said}")
        if before is None or spec.serve.model != before.serve.model or self.fleet.wanted not in spec.models:
            self.fleet.want(spec.serve.model)
        self.fleet.forgive()
        self.enforce()

    def enforce(self) -> None:
        """Make everything run as the config in force says; what runs so already is left alone."""
        if (spec := self.preparing.affordable(self.published.spec)) is None:
            return
        secrets = [self.settings.environ[name] for name in TOKENS]
        known = (*secrets, *secret_values(self.settings.environ), *secret_values(dict(spec.serve.env)))
        self.shop.journal.redactor = Redactor(known)
        policy = replace(ENGINE, sleeps=sleeps(spec))
        for key in spec.models:
            port = self._port(key if sleeps(spec) else "")
            launch = launches.engine(self.settings, spec, key, port, peer_to_peer=self.preparing.peer_to_peer)
            self.fleet.keep(key, launch, policy, partial(self._prepare, key))
        for key in set(self.fleet.engines) - set(spec.models):
            self.fleet.drop(key)
        bridge = launches.bridge(self.settings, spec, self.listener, f"http://127.0.0.1:{self._port('')}")
        if self.bridge is None:
            self.bridge = Keeper(bridge, BRIDGE, self.shop)
            self.bridge.post(Event("run"))
        self.bridge.relaunch(bridge, BRIDGE)
        self.keep_worker()
        self.keep_desktop(on=spec.desktop.enabled)
        self._steer()

    def keep_worker(self) -> None:
        spec, settings = self.published.spec, self.settings
        launch = launches.worker(settings, spec, self.shop.journal.path, stop=self.stopping)
        self._keep_helper("hub", launch, on=bool(settings.hub or self.stopping or (spec and spec.log.mirror)))

    def _hear_hub(self, line: str) -> None:
        # A line of the worker: its task, and what came of it.
        task, _, said = line.partition(" ")
        self._hub_said[task] = line if said.startswith("failed") else ""
        try:
            if line.startswith("config new"):
                self.read_incoming()
            elif self._hub_said[task] and self.published.spec is None:
                self._bring_in(self.published.recall(time.time()))
        except Problem as problem:
            self.shop.journal.say("error", f"config: {problem}")
        self._looked.set()

    @property
    def hub_fault(self) -> str | None:
        return next(filter(None, self._hub_said.values()), None)

    async def look_at_hub(self, limit_s: float) -> None:
        """Have the published config looked at now. Errors: Problem, when the worker does not get to it."""
        self._looked.clear()
        self.shop.children.signal(self.helpers["hub"].service.pid or 0, signal.SIGUSR1)
        try:
            await asyncio.wait_for(self._looked.wait(), limit_s)
        except TimeoutError as error:
            raise Problem(f"{self.settings.hub} was not read within {limit_s:g} s") from error

    def keep_desktop(self, *, on: bool) -> None:
        self._keep_helper("desktop", launches.desktop(self.settings), on=on)

    def _keep_helper(self, name: str, launch: Launch, *, on: bool) -> None:
        if name in self.helpers:
            self.helpers[name].relaunch(launch, HELPER)
        elif on:
            self.helpers[name] = Keeper(launch, HELPER, self.shop, hear=self._hear_hub if name == "hub" else None)
        if name in self.helpers:
            self.helpers[name].post(Event("run" if on else "rest"))

    def _steer(self) -> None:
        if not self.stop.is_set():
            self.fleet.steer()

    async def _prepare(self, key: str) -> None:
        if spec := self.published.spec:
            service = self.fleet.engines[key].service
            failed = service.barren > (service.took_s is not None)  # it never came up, or not since it last served
            await self.preparing.prepare(spec, key, again=failed)
            self.enforce()  # where the machine turned out to need another command

    def _port(self, key: str) -> int:
        # One for all engines, of which one runs; or one each, where they sleep side by side.
        if key not in self._ports:
            self._ports[key] = self.settings.engine_port if not self._ports else 0
            self._ports[key] = self._ports[key] or launches.free_port()
        return self._ports[key]

    def demand(self, key: str) -> None:
        """A swap, asked for. Errors: Problem, why not."""
        spec = self.published.spec
        if self.stop.is_set() or self.stopping:
            raise Problem("the pod is stopping")
        if spec is None or key not in spec.models:
            raise Problem(f"there is no model {key!r}; there is: {', '.join(spec.models) if spec else 'none'}")
        self.fleet.demand(key, spec.swap.dwell_minutes * 60.0)

    def end(self) -> None:
        self.stop.set()
        self.shop.news.tell()

    def restart(self, name: str) -> None:
        """Errors: Problem, when there is nothing to restart."""
        keeper = self.fleet.engine if name == "engine" else self.bridge
        if keeper is None or self.stop.is_set():
            raise Problem("the pod is stopping" if keeper else "there is no config yet")
        keeper.post(Event("restart" if keeper.service.pid else "run"))

    # As time goes by.

    async def live_on(self) -> None:
        """What is due, every quarter of a second; and what must be looked at, every second."""
        looks = 0
        while True:
            await asyncio.sleep(TICK_S)
            for keeper in itertools.chain(*self.groups()):
                keeper.post(Event("tick"))
            self.fleet.drain(self.live)
            self._steer()
            self._cry()
            looks += 1
            if looks % 4 == 0:
                self.shop.children.look()
                for engine in self.fleet.engines.values():
                    engine.look()
                self._watch_idleness()
                self._preload()

    def _cry(self) -> None:
        # An engine that dies has its last words mirrored now: nobody may be left to ask later.
        dead = self.fleet.engine is not None and self.fleet.engine.service.phase in ("backoff", "fatal")
        if dead and not self._cried and "hub" in self.helpers:
            self.shop.children.signal(self.helpers["hub"].service.pid or 0, signal.SIGUSR1)
        self._cried = dead

    def _watch_idleness(self) -> None:
        spec, engine = self.published.spec, self.fleet.engine
        clients = sum(clients for _, clients in self.watchers.values()) if self.watchers else None
        figures = engine.signs.figures if engine and engine.service.phase == "serving" else None
        signs = idle.Signs(clients, figures.requests, sum(figures.progress)) if figures else idle.Signs(clients)
        minutes = spec.idle.stop_after_minutes if spec and not self.idle_off else None
        self.idle, self.countdown = idle.step(self.idle, signs, minutes and minutes * 60.0, self.shop.clock())
        if self.countdown.due and not self.stopping:
            self.shop.journal.say("warning", f"idle for {minutes:g} minutes: the pod stops itself")
            self.stop_pod()

    @property
    def idle_off(self) -> str | None:
        """Why the pod could not stop itself."""
        has_key = self.settings.environ.get("RUNPOD_API_KEY") or not self.settings.pod_id
        return None if has_key else "RUNPOD_API_KEY is not set in the pod"

    def stop_pod(self) -> None:
        """End; in a rented pod by the provider alone, since a container that ends is started anew. Errors: Problem."""
        if self.idle_off:
            raise Problem(f"{self.idle_off}: stop it from your machine")
        if not self.settings.pod_id:
            self.end()
            return
        self.stopping = True
        self.keep_worker()
        self.shop.news.tell()

    def keep(self) -> None:
        """Not idle, says the operator; a stop that was asked for is asked no longer."""
        self.idle, self.stopping = idle.keep(self.idle, self.shop.clock()), False
        self.keep_worker()

    def _preload(self) -> None:
        spec, engine = self.published.spec, self.fleet.engine
        if spec and self._preloaded is not spec and engine and engine.service.phase == "serving":
            self._preloaded = spec
            self.shop.tasks.create_task(self.preparing.preload(spec, dict(engine.launch.env)))

    def groups(self) -> tuple[list[Keeper], list[Keeper], list[Keeper]]:
        """In the order in which they stop: the bridge, so that its streams may end; the engines; the hub worker."""
        rest = [keeper for name, keeper in self.helpers.items() if name != "hub"]
        hub = [keeper for name, keeper in self.helpers.items() if name == "hub"]
        return [self.bridge] if self.bridge else [], [*self.fleet.engines.values(), *rest], hub

    async def halt(self, keepers: list[Keeper], limit_s: float) -> None:
        """Stop them for good; returns when they are stopped."""
        for keeper in keepers:
            keeper.post(Event("stop", limit_s=limit_s))
        while any(keeper.service.phase != "stopped" for keeper in keepers):
            await self.shop.news.event.wait()
