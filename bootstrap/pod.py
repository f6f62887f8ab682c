"""The pod whole: what runs by the config in force, which model is awake, and when the pod stops itself."""

import asyncio
import base64
import contextlib
import json
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from bootstrap import launches
from bootstrap.command import sleeps
from bootstrap.errors import Problem, failing_as
from bootstrap.fleet import Fleet
from bootstrap.idle import Idle
from bootstrap.keeper import Keeper, Launch, Shop
from bootstrap.launches import Settings
from bootstrap.machine import BRIDGE, Event
from bootstrap.preparing import Preparing
from bootstrap.published import Published
from bootstrap.redact import secret_values
from bootstrap.spec import PodSpec

TICK_S = 0.25
LOOK_S = 12.0  # for the published config to be read when that is asked for


class Pod:
    def __init__(self, settings: Settings, shop: Shop, listener: socket.socket) -> None:
        self.settings, self.shop, self.listener, self.stop = settings, shop, listener, asyncio.Event()
        self.published = Published(settings.state, settings.environ)
        self.preparing, self.fleet = Preparing(settings, shop), Fleet(shop)
        self.bridge = Keeper(Launch("bridge", policy=BRIDGE), shop)
        self.desktop = Keeper(launches.desktop(settings), shop)
        self.hub = Keeper(Launch("hub"), shop)
        self.watchers: dict[object, tuple[int, int]] = {}  # what each bridge that watches tells: live turns, clients
        self.idle, self.stopping = Idle(shop.clock()), False  # stopping: the provider is asked to stop the machine
        self._ports, self._cried = dict[str, int](), False
        self._preloaded: PodSpec | None = None
        self._hub_said, self._looked = dict[str, str](), asyncio.Event()

    @property
    def spec(self) -> PodSpec | None:
        """The config in force."""
        return self.published.spec

    @property
    def streams(self) -> tuple[int | None, int | None]:
        """Live turns and clients, by the bridges that watch."""
        told = list(self.watchers.values())
        return (sum(live for live, _ in told), sum(clients for _, clients in told)) if told else (None, None)

    # The config in force.

    def begin(self) -> None:
        """Errors: Problem, when the file that is the config cannot be used."""
        if self.settings.hub is None:
            self._read_file()
        else:
            self.shop.journal.say("info", f"waiting for pod.toml at {self.settings.hub}")
            self._keep_hub()

    def _read_file(self) -> None:
        with failing_as(f"cannot read the config {self.settings.config}"):
            body = (self.settings.config or Path()).read_bytes()
        self._bring_in(self.published.take(body, None, time.time()))

    def _read_incoming(self) -> None:
        with failing_as("cannot read what the hub worker fetched"):
            told = json.loads((self.settings.state / "incoming.json").read_bytes())
        body, signature = base64.b64decode(told["body"]), told["signature"] or ""
        self._bring_in(self.published.take(body, told["commit"], time.time(), signature))

    def _bring_in(self, before: PodSpec | None) -> None:
        spec, applied = self.spec, self.published.applied
        if spec is None or applied is None or spec is before:
            return
        self.shop.journal.redactor.learn(secret_values(dict(spec.serve.env)))
        said = "; ".join((applied.plan, *applied.reasons))
        self.shop.journal.say("info", f"config: serial {spec.serial}, model {spec.serve.model}: {said}")
        if before is None or spec.serve.model != before.serve.model or self.fleet.wanted not in spec.models:
            self.fleet.want(spec.serve.model)
        self.desktop.keep(launches.desktop(self.settings), on=spec.desktop.enabled)
        self.fleet.forgive()
        self._enforce()

    # Make everything run as the config in force says; what runs so already is left alone.
    def _enforce(self) -> None:
        if (spec := self.preparing.affordable(self.spec)) is None:
            return
        for key in spec.models:
            port, direct = self._port(key if sleeps(spec) else ""), self.preparing.peer_to_peer
            launch = launches.engine(self.settings, spec, key, port, peer_to_peer=direct)
            self.fleet.keep(key, replace(launch, prepare=partial(self._prepare, key)))
        for key in set(self.fleet.engines) - set(spec.models):
            self.fleet.drop(key)
        url = f"http://127.0.0.1:{self._port('')}"
        self.bridge.keep(launches.bridge(self.settings, spec, self.listener, url))
        self._keep_hub()
        self._steer()

    def _steer(self) -> None:
        if not self.stop.is_set():
            self.fleet.steer()

    def _keep_hub(self) -> None:
        launch = launches.worker(self.settings, self.spec, self.shop.journal.path, stop=self.stopping)
        on = bool(self.settings.hub or self.stopping or (self.spec and self.spec.log.mirror))
        self.hub.keep(replace(launch, hear=self._hear_hub), on=on)

    def _hear_hub(self, line: str) -> None:
        # A line of the worker: its task, and what came of it.
        task, _, said = line.partition(" ")
        self._hub_said[task] = line if said.startswith("failed") else ""
        try:
            if line.startswith("config new"):
                self._read_incoming()
            elif self._hub_said[task] and self.spec is None:
                self._bring_in(self.published.recall(time.time()))
        except Problem as problem:
            self.shop.journal.say("error", f"config: {problem}")
        self._looked.set()

    @property
    def hub_fault(self) -> str | None:
        return next(filter(None, self._hub_said.values()), None)

    async def _prepare(self, key: str) -> None:
        if spec := self.spec:
            service = self.fleet.engines[key].service
            failed = service.barren > (service.took_s is not None)  # it never came up, or not since it last served
            await self.preparing.prepare(spec, key, again=failed)
            self.published.gpus = self.preparing.gpus
            self._enforce()  # where the machine turned out to need another command

    def _port(self, key: str) -> int:
        # One for all engines, of which one runs; or one each, where they sleep side by side.
        if key not in self._ports:
            self._ports[key] = (self.settings.engine_port if not self._ports else 0) or launches.free_port()
        return self._ports[key]

    # Orders. Errors of each: Problem, why not.

    async def apply(self) -> None:
        """Look at the published config now."""
        if self.settings.hub is None:
            self._read_file()
        else:
            self._looked.clear()
            self.hub.urge()
            try:
                await asyncio.wait_for(self._looked.wait(), LOOK_S)
            except TimeoutError as error:
                raise Problem(f"{self.settings.hub} was not read within {LOOK_S:g} s") from error
        if self.published.error:
            raise Problem(self.published.error)
        self.fleet.forgive()

    def swap(self, key: str) -> None:
        if self.stop.is_set() or self.stopping:
            raise Problem("the pod is stopping")
        if self.spec is None or key not in self.spec.models:
            there = ", ".join(self.spec.models) if self.spec else "none"
            raise Problem(f"there is no model {key!r}; there is: {there}")
        self.fleet.demand(key, self.spec.swap.dwell_minutes * 60.0)

    def restart(self, name: str) -> None:
        keeper = self.fleet.engine if name == "engine" else self.bridge
        if keeper is None or self.spec is None or self.stop.is_set():
            raise Problem("there is no config yet" if self.spec is None else "the pod is stopping")
        keeper.post(Event("restart" if keeper.service.pid else "run"))

    def keep(self) -> None:
        """Not idle, says the operator; a stop that was asked for is asked no longer."""
        self.idle, self.stopping = self.idle.keep(self.shop.clock()), False
        self._keep_hub()

    def start_desktop(self) -> None:
        self.desktop.keep(launches.desktop(self.settings))

    @property
    def idle_off(self) -> str | None:
        """Why the pod could not stop itself."""
        has_key = self.settings.environ.get("RUNPOD_API_KEY") or not self.settings.pod_id
        return None if has_key else "RUNPOD_API_KEY is not set in the pod"

    def stop_pod(self) -> None:
        """End; in a rented pod by the provider alone, since a container that ends is started anew."""
        if self.idle_off:
            raise Problem(f"{self.idle_off}: stop it from your machine")
        if not self.settings.pod_id:
            self.end()
            return
        self.stopping = True
        self._keep_hub()
        self.shop.tell()

    def end(self) -> None:
        self.stop.set()
        self.shop.tell()

    # As time goes by.

    async def live_on(self) -> None:
        """What is due, every quarter of a second; and what must be looked at, every second."""
        looks = 0
        while True:
            await asyncio.sleep(TICK_S)
            for keeper in [each for group in self.groups() for each in group]:
                keeper.post(Event("tick"))
            self.fleet.drain(self.streams[0])
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
        dead = self.fleet.phase in ("backoff", "fatal")
        if dead and not self._cried:
            self.hub.urge()
        self._cried = dead

    def _watch_idleness(self) -> None:
        signs, now = self.fleet.engine.signs if self.fleet.engine else None, self.shop.clock()
        if signs and self.fleet.phase == "serving":
            self.idle = self.idle.see(now, self.streams[1], signs.requests, sum(signs.progress))
        else:
            self.idle = self.idle.see(now, self.streams[1])
        if self.stop_in_s == 0.0 and not self.stopping:
            self.shop.journal.say("warning", "idle for too long ([idle] stop_after_minutes): the pod stops itself")
            self.stop_pod()

    @property
    def stop_in_s(self) -> float | None:
        """None: it is not idle, or would not stop."""
        minutes = self.spec.idle.stop_after_minutes if self.spec and not self.idle_off else None
        return None if minutes is None or self.idle.busy else self.idle.remaining_s(minutes * 60.0, self.shop.clock())

    def _preload(self) -> None:
        spec, engine = self.spec, self.fleet.engine
        if spec and engine and self._preloaded is not spec and self.fleet.phase == "serving":
            self._preloaded = spec
            self.shop.tasks.create_task(self.preparing.preload(spec, dict(engine.launch.env)))

    def groups(self) -> tuple[list[Keeper], list[Keeper], list[Keeper]]:
        """In the order in which they stop: the bridge, so that its streams may end; the engines; the hub worker."""
        return [self.bridge], [*self.fleet.engines.values(), self.desktop], [self.hub]

    async def halt(self, keepers: list[Keeper], limit_s: float) -> None:
        """Stop them for good; returns when they are stopped, or a little later than they should be."""
        for keeper in keepers:
            keeper.post(Event("stop", limit_s=limit_s))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s + 0.25):
                while any(keeper.service.phase != "stopped" for keeper in keepers):
                    await self.shop.changed.wait()
