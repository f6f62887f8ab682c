"""The engines of all models, of which one is awake: which one that is to be, swaps, and drains."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace

from bootstrap import machine, report
from bootstrap.engine import Engine
from bootstrap.errors import Problem
from bootstrap.keeper import Launch, Shop
from bootstrap.machine import Event, Policy

DRAIN_LEAST_S = 1.0  # a bridge tells of its streams every half second


class Fleet:
    def __init__(self, shop: Shop) -> None:
        self.engines: dict[str, Engine] = {}
        self.wanted = ""  # key of the model that is to be awake
        self._shop, self._swapped_at = shop, -math.inf
        self._swap: report.Swap | None = None

    @property
    def engine(self) -> Engine | None:
        return self.engines.get(self.wanted)

    @property
    def swap(self) -> report.Swap | None:
        """The last one, with times as ages."""
        return self._swap and replace(self._swap, began_s=self._shop.clock() - self._swap.began_s)

    def keep(self, key: str, launch: Launch, policy: Policy, prepare: Callable[[], Awaitable[None]]) -> None:
        """Have this engine at hand; one that runs otherwise is replaced."""
        if key not in self.engines:
            self.engines[key] = Engine(launch, policy, self._shop, prepare)
        self.engines[key].relaunch(launch, policy)

    def drop(self, key: str) -> None:
        asleep = self.engines[key].service.phase == "asleep"
        self.engines[key].post(Event("restart" if asleep else "rest"))

    def forgive(self) -> None:
        """What was given up may be tried again."""
        for engine in self.engines.values():
            if engine.service.phase == "fatal":
                engine.post(Event("restart"))

    def demand(self, key: str, dwell_s: float) -> None:
        """A swap that was asked for. Errors: Problem, when the last one was too short ago."""
        left_s = self._swapped_at + dwell_s - self._shop.clock()
        if key != self.wanted and left_s > 0:
            refusal = Problem(f"the last swap was too short ago: in {left_s:.0f} s ([swap] dwell_minutes)")
            refusal.wait_s = left_s
            raise refusal
        self.want(key)

    def want(self, key: str) -> None:
        if self.wanted not in ("", key):
            target, self._swapped_at = self.engines.get(key), self._shop.clock()
            eta_s = target.service.took_s if target else None
            self._swap = report.Swap(key, self.wanted, self._swapped_at, eta_s)
            self.forgive()
        self.wanted = key
        self._shop.news.tell()

    def steer(self) -> None:
        """Lead to the wanted model alone being awake; a swap that fails leads back."""
        services = {key: engine.service for key, engine in self.engines.items()}
        if order := machine.steer(services, self.wanted):
            self.engines[order[0]].post(Event(order[1]))
        if self._swap is None or self._swap.took_s is not None or self.engine is None:
            return
        swap, service = self._swap, self.engine.service
        took_s = self._shop.clock() - swap.began_s
        if service.phase == "serving":
            self._swap = replace(swap, took_s=took_s)
        elif service.begun >= swap.began_s and (service.barren or service.phase == "fatal"):
            self._swap = replace(swap, took_s=took_s, error=service.last_exit)
            self._shop.journal.say("error", f"swap to {swap.model}: {service.last_exit}; back to {swap.came_from}")
            self.wanted = swap.came_from
            self._shop.news.tell()

    def drain(self, live: int | None) -> None:
        """`live`: streams that the bridges hold, where they tell."""
        for engine in self.engines.values():
            waited_s = self._shop.clock() - engine.service.since
            if engine.service.phase == "draining" and waited_s >= DRAIN_LEAST_S and engine.may_end(live):
                engine.tell("drained")
