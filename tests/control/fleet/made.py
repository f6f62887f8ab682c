"""Fleets of real processes on this machine, and agents at work on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from control.bench import agents
from control.bench.agents import Load, Turn
from control.bench.conversation import Sizes
from control.fleet import life
from control.fleet.look import look
from control.fleet.models import Fleet, FrontStatus
from control.fleet.store import Fleets
from control.fleet.view import FleetSnapshot
from control.local.provider import LocalProvider, Options

FAST = ("--sim-prefill-tokens-per-s", "60000")
SIZES = Sizes(first=12_000, limit=400_000, result=(300, 900), answer=(60, 160))


@dataclass
class Made:
    fleets: Fleets
    fleet: Fleet
    provider: LocalProvider

    async def status(self) -> FrontStatus:
        return await life.front_status(self.fleets, self.fleet.name)

    async def look(self, seconds: float = 0.0) -> FleetSnapshot:
        return await look(self.fleets, self.fleet, seconds)

    async def work(self, turns: int, report: Callable[[Turn], None], seed: int = 1) -> None:
        """Six agents with so many turns each."""
        await work(self.fleet.url, self.fleets.tokens(self.fleet.name).client, turns, report, seed)


async def work(url: str, token: str, turns: int, report: Callable[[Turn], None], seed: int = 1) -> None:
    await agents.run(Load(url, token, "qwen3-coder", turns=turns, sizes=SIZES, max_tokens=200, seed=seed), report)


@asynccontextmanager
async def made(home: Path, monkeypatch: pytest.MonkeyPatch, replicas: int = 3) -> AsyncIterator[Made]:
    """A fleet that serves, and nothing of it afterwards."""
    monkeypatch.setenv("PASSERELLE_HOME", str(home))
    fleets, provider = Fleets(home), LocalProvider(home)
    fleet = life.make(fleets, "night", "127.0.0.1", None)
    try:
        pods = [await provider.create(Options(sim=FAST)) for _ in range(replicas)]
        fleet = replace(fleet, replicas=tuple(pod.id for pod in pods))
        fleets.save(fleet)
        await life.start_front(fleets, fleet)
        assert await life.wait_serving(fleet.replicas, lambda _: None, 30.0) == ()
        assert await life.ready(fleets, fleet, 30.0)
        yield Made(fleets, fleet, provider)
    finally:
        await life.stop_front(fleets, fleet.name)
        for pod in await provider.list():
            await provider.terminate(pod.id)


def cached_share(turns: list[Turn]) -> float:
    """Of the prompts of all turns but each agent's first, the share that came from a cache."""
    later = [turn for at, turn in enumerate(turns) if turn.agent in {one.agent for one in turns[:at]}]
    cached = sum(turn.cached_tokens for turn in later)
    return cached / (cached + sum(turn.input_tokens for turn in later))


async def until(holds: Callable[[], bool], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - nothing signals what other processes do
            await asyncio.sleep(0.05)
