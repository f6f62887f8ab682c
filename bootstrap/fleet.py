"""The engines of all models, of which one is awake: which one that is to be, swaps, and drains."""

import math
from dataclasses import replace

from bootstrap import machine, report
from bootstrap.engine import Engine
from bootstrap.errors import Problem
from bootstrap.keeper import Launch, Shop
from bootstrap.machine import Event

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
    def phase(self) -> report.ServiceState:
        return self.engine.service.phase if self.engine else "stopped"

    @property
    def swap(self) -> report.Swap | None:
        """The last one, with times as ages."""
        return self._swap and replace(self._swap, began_s=self._shop.clock() - self._swap.began_s)

    @property
    def eta_s(self) -> float | None:
        """Until the engine serves, by its last start."""
        if self.engine is None or self.phase == "serving" or (took_s := self.engine.service.took_s) is None:
            return None
        return max(0.0, took_s - (self._shop.clock() - self.engine.service.begun))

    def keep(self, key: str, launch: Launch) -> None:
        """Have this engine at hand; one that runs otherwise is replaced."""
        if key not in self.engines:
            self.engines[key] = Engine(launch, self._shop)
        self.engines[key].relaunch(launch)

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
            raise Problem(f"the last swap was too short ago: in {left_s:.0f} s ([swap] dwell_minutes)", left_s)
        self.want(key)

    def want(self, key: str) -> None:
        if self.wanted not in ("", key):
            target, self._swapped_at = self.engines.get(key), self._shop.clock()
            eta_s = target.service.took_s if target else None
            self._swap = report.Swap(key, self.wanted, self._swapped_at, eta_s)
            self.forgive()
        self.wanted = key
        self._shop.tell()

    def steer(self) -> None:
        """Lead to the wanted model alone being awake; a swap that fails leads back."""
        if order := machine.steer({key: engine.service for key, engine in self.engines.items()}, self.wanted):
            self.engines[order[0]].post(Event(order[1]))
        swap, engine, now = self._swap, self.engine, self._shop.clock()
        if swap is None or swap.took_s is not None or engine is None:
            return
        if engine.service.phase == "serving":
            self._swap = replace(swap, took_s=now - swap.began_s)
        elif engine.service.begun >= swap.began_s and (engine.service.barren or engine.service.phase == "fatal"):
            self._swap = replace(swap, took_s=now - swap.began_s, error=engine.failure)
            self._shop.journal.say("error", f"swap to {swap.model}: {engine.failure}; back to {swap.came_from}")
            self.wanted = swap.came_from
            self._shop.tell()

    def drain(self, live: int | None) -> None:
        """`live`: streams that the bridges hold, where they tell."""
        for engine in self.engines.values():
            waited_s = self._shop.clock() - engine.service.since
            if engine.service.phase == "draining" and waited_s >= DRAIN_LEAST_S and engine.may_end(live):
                engine.tell("drained")
