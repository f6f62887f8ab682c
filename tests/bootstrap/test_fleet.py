"""Which engine is awake, and swaps between them, with children that live in a list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.errors import Problem
from bootstrap.fleet import DRAIN_LEAST_S, Fleet
from bootstrap.keeper import Launch
from bootstrap.machine import ENGINE, Event, Policy
from tests.bootstrap.shop import Bench, bench

PLAIN = replace(ENGINE, prepares=False)


class Desk:
    def __init__(self, parts: Bench, policy: Policy = PLAIN) -> None:
        self.parts, self.fleet = parts, Fleet(parts.shop)
        for key in "ab":
            self.fleet.keep(key, Launch("engine", (key,), {}, "http://127.0.0.1:1/health", policy=policy))
        self.fleet.want("a")
        self.settle()
        self.answer("a")

    def settle(self, seconds: float = 0.0) -> None:
        """So much later."""
        self.parts.now += seconds
        self.fleet.drain(live=0)
        for engine in self.fleet.engines.values():
            engine.post(Event("tick"))
        self.fleet.steer()

    def answer(self, key: str) -> None:
        self.fleet.engines[key].tell("answered")
        self.settle()

    def end(self, key: str, how: str = "exit code 0") -> None:
        pid = self.fleet.engines[key].service.pid
        assert pid is not None
        self.parts.children.end(pid, how)
        self.settle()

    def phases(self) -> dict[str, str]:
        return {key: engine.service.phase for key, engine in self.fleet.engines.items()}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with bench(tmp_path) as parts:
        yield Desk(parts)


def swap(desk: Desk, key: str, dwell_s: float = 0.0) -> None:
    desk.fleet.demand(key, dwell_s)
    desk.settle()


async def test_a_swap_drains_ends_and_starts(desk: Desk) -> None:
    assert desk.phases() == {"a": "serving", "b": "stopped"}
    swap(desk, "b")
    assert desk.phases() == {"a": "draining", "b": "stopped"}
    desk.settle(DRAIN_LEAST_S)
    assert desk.phases() == {"a": "stopping", "b": "stopped"}
    desk.end("a")
    assert desk.phases() == {"a": "stopped", "b": "starting"}
    desk.parts.now += 30.0
    desk.answer("b")
    seen = desk.fleet.swap
    assert seen is not None
    assert (seen.model, seen.came_from, seen.took_s, seen.error, seen.eta_s) == ("b", "a", 31.0, None, None)


async def test_a_swap_that_fails_leads_back_and_says_why(desk: Desk) -> None:
    swap(desk, "b")
    desk.settle(DRAIN_LEAST_S)
    desk.end("a")
    desk.end("b", "exit code 1")
    desk.settle()
    desk.settle()
    assert (desk.fleet.wanted, desk.phases()) == ("a", {"a": "starting", "b": "stopped"})
    assert desk.fleet.swap is not None
    assert desk.fleet.swap.error == "exit code 1"
    assert ("error", "swap to b: exit code 1; back to a") in desk.parts.said()


async def test_a_swap_that_fails_says_what_the_engines_log_says(desk: Desk) -> None:
    swap(desk, "b")
    desk.settle(DRAIN_LEAST_S)
    desk.end("a")
    pid = desk.fleet.engines["b"].service.pid
    assert pid is not None
    desk.parts.children.outputs[pid](b"RuntimeError: No CUDA GPUs are available\n")
    desk.end("b", "exit code 1")
    seen = desk.fleet.swap
    assert seen is not None
    assert (seen.error or "").startswith(
        "exit code 1: no-gpu: RuntimeError: No CUDA GPUs are available (the host lists"
    )
    engine = desk.fleet.engines["b"]
    engine.service = replace(engine.service, begun=desk.parts.now + 1.0, last_exit="refused before it started")
    assert engine.failure == "refused before it started", "that log is of an earlier start"


async def test_a_model_that_was_given_up_is_tried_when_it_is_asked_for(desk: Desk) -> None:
    engine = desk.fleet.engines["b"]
    engine.service = replace(engine.service, phase="fatal", barren=6, last_exit="exit code 1", begun=-1.0)
    swap(desk, "b")
    desk.settle(DRAIN_LEAST_S)
    desk.end("a")
    assert desk.phases()["b"] == "starting"


async def test_two_swaps_in_a_row_keep_their_distance(desk: Desk) -> None:
    swap(desk, "b", 600.0)
    desk.parts.now += 10.0
    swap(desk, "b", 600.0)
    with pytest.raises(Problem, match=r"in 590 s \(\[swap\] dwell_minutes\)") as refused:
        desk.fleet.demand("a", 600.0)
    assert refused.value.wait_s == 590.0
    desk.parts.now += 590.0
    swap(desk, "a", 600.0)
    assert desk.fleet.wanted == "a"


async def test_a_change_of_mind_while_it_drains_costs_nothing(desk: Desk) -> None:
    pid = desk.fleet.engines["a"].service.pid
    swap(desk, "b")
    swap(desk, "a")
    assert desk.phases() == {"a": "serving", "b": "stopped"}
    assert desk.fleet.engines["a"].service.pid == pid


async def test_the_way_there_is_estimated_by_the_last_time(desk: Desk) -> None:
    for key, seconds in (("b", 30.0), ("a", 20.0), ("b", 10.0)):
        other = "a" if key == "b" else "b"
        swap(desk, key)
        eta = desk.fleet.swap.eta_s if desk.fleet.swap else None
        desk.settle(DRAIN_LEAST_S)
        desk.end(other)
        desk.parts.now += seconds
        desk.answer(key)
    assert eta == 30.0


async def test_a_model_that_is_no_longer_in_the_config_makes_room(desk: Desk) -> None:
    desk.fleet.want("b")
    desk.fleet.drop("a")
    assert desk.phases()["a"] == "draining"
    desk.settle(DRAIN_LEAST_S)
    desk.end("a")
    assert desk.phases() == {"a": "stopped", "b": "starting"}


async def test_a_sleeper_that_is_no_longer_in_the_config_is_ended(tmp_path: Path) -> None:
    async with bench(tmp_path) as parts:
        desk = Desk(parts, replace(PLAIN, sleeps=True))
        engine = desk.fleet.engines["a"]
        engine.service = replace(engine.service, phase="asleep", goal="rest")
        desk.fleet.want("b")
        desk.fleet.drop("a")
        assert desk.phases()["a"] == "stopping"
