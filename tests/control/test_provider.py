"""The contract of every provider, over the embedded pods and over RunPod's double alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from control.clock import Clock
from control.cost import cost_accrued
from control.errors import NoSuchPod, Refused
from control.keys import Keys
from control.local.provider import LocalProvider, Options
from control.models import Pod, PodId, PodState
from control.provider import Provider
from control.runpod.client import Access
from control.runpod.provider import RunPodProvider
from control.runpod.store import Store
from tests.control.runpod.conftest import order
from tests.doubles.clock import ManualClock
from tests.doubles.runpod import KEY, RunPodDouble

LIMIT_S = 60.0


@dataclass
class Rig:
    """A provider, how to make a pod there, and a clock on which its pods come and go."""

    provider: Provider
    create: Callable[[], Awaitable[Pod]]
    clock: Clock

    async def until(self, pod_id: PodId, state: PodState) -> Pod:
        """Poll, as every caller must: a call that returned was accepted, no more."""
        limit = self.clock.now() + (LIMIT_S if not isinstance(self.clock, ManualClock) else 600.0)
        while (pod := await self.provider.get(pod_id)).state is not state:
            assert self.clock.now() < limit, f"still {pod.state}: {pod.note}"
            await self.clock.sleep(0.1 if not isinstance(self.clock, ManualClock) else 5.0)
        return pod


@pytest.fixture
def double() -> Iterator[RunPodDouble]:
    with RunPodDouble(ManualClock()) as made:
        yield made
        assert made.violations == []


def rented(double: RunPodDouble, home: Path) -> Rig:
    keys = Keys(home, environ={"PASSERELLE_KEYRING": "off"})
    provider = RunPodProvider(Access(KEY, double.url), Store(home), keys, double.cloud.clock)

    async def create() -> Pod:
        wanted = order()
        name = f"contract-{len(double.cloud.pods)}"
        return await provider.create(wanted, await provider.plan(wanted), name, lambda line: None)

    return Rig(provider, create, double.cloud.clock)


def embedded(home: Path) -> Rig:
    provider = LocalProvider(home)
    return Rig(provider, lambda: provider.create(Options()), Clock())


@pytest.fixture(params=[pytest.param("local", marks=pytest.mark.process), "runpod"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    local = request.param == "local"
    made = embedded(tmp_path) if local else rented(request.getfixturevalue("double"), tmp_path)
    yield made
    for pod in await made.provider.list():
        await made.provider.terminate(pod.id)


async def test_create_stop_start_terminate(rig: Rig) -> None:
    made = await rig.create()
    assert made.state in (PodState.STARTING, PodState.RUNNING)
    assert made.provider == rig.provider.name
    up = await rig.until(made.id, PodState.RUNNING)
    assert up.url is not None
    assert up.started_at is not None
    assert up.ended_at is None
    assert up.price.per_hour > 0
    assert [pod.id for pod in await rig.provider.list()] == [made.id]

    await rig.provider.stop(made.id)
    down = await rig.until(made.id, PodState.EXITED)
    assert down.started_at is None
    assert down.ended_at is not None
    cost = cost_accrued(down, down.ended_at)
    assert cost > 0
    await rig.provider.stop(made.id)
    assert (await rig.provider.get(made.id)).state is PodState.EXITED

    again = await rig.provider.start(made.id)
    assert again.state in (PodState.STARTING, PodState.RUNNING)
    running = await rig.until(made.id, PodState.RUNNING)
    assert cost_accrued(running, rig.clock.now()) >= cost, "what was spent stays spent"
    with pytest.raises(Refused, match="running already"):
        await rig.provider.start(made.id)

    await rig.provider.terminate(made.id)
    assert await rig.provider.list() == ()
    await rig.provider.terminate(made.id)


async def test_a_running_pod_is_restarted_and_a_stopped_one_is_not(rig: Rig) -> None:
    made = await rig.create()
    before = await rig.until(made.id, PodState.RUNNING)
    again = await rig.provider.restart(made.id)
    assert (again.id, again.state in (PodState.STARTING, PodState.RUNNING)) == (made.id, True)
    after = await rig.until(made.id, PodState.RUNNING)
    assert after.url == before.url, "Claude Code's address stays"
    await rig.provider.stop(made.id)
    await rig.until(made.id, PodState.EXITED)
    with pytest.raises(Refused, match="does not run") as refused:
        await rig.provider.restart(made.id)
    assert f"pod start {made.id}" in refused.value.remedy
    assert (await rig.provider.get(made.id)).state is PodState.EXITED


async def test_two_tokens_that_differ_per_pod(rig: Rig) -> None:
    made = await rig.create()
    tokens = await rig.provider.tokens(made.id)
    assert tokens.client
    assert tokens.operator
    assert tokens.client != tokens.operator
    assert tokens.client not in repr(await rig.provider.get(made.id))


async def test_the_newest_pod_is_listed_first(rig: Rig) -> None:
    first = await rig.create()
    await rig.clock.sleep(1.1)
    second = await rig.create()
    assert [pod.id for pod in await rig.provider.list()] == [second.id, first.id]


@pytest.mark.parametrize("bad", ["nosuchpod", "../../etc", ""])
async def test_a_pod_that_is_not_there(rig: Rig, bad: str) -> None:
    for call in (rig.provider.get, rig.provider.stop, rig.provider.start, rig.provider.restart, rig.provider.bill):
        with pytest.raises(NoSuchPod):
            await call(PodId(bad))


async def test_the_log_ends_when_it_is_not_followed(rig: Rig) -> None:
    made = await rig.create()
    lines = [line async for line in rig.provider.log_lines(made.id, 50, follow=False)]
    assert all(line.text for line in lines)
    with pytest.raises(NoSuchPod):
        [line async for line in rig.provider.log_lines(PodId("nosuchpod"), 1, follow=False)]


async def test_nothing_is_billed_before_it_ran(rig: Rig) -> None:
    made = await rig.create()
    assert await rig.provider.bill(made.id) == ()
