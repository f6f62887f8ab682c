"""Waiting for a pod to serve and for one to have stopped: what is said, when it is given up, what is asked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from control import phases, waiting
from control.errors import Refused, Unreachable
from control.keys import Keys
from control.models import Pod, PodId
from control.phases import Phase
from control.runpod.client import Access
from control.runpod.provider import RunPodProvider
from control.runpod.store import Store
from tests.control.runpod.conftest import order
from tests.doubles.clock import ManualClock
from tests.doubles.runpod import KEY, RunPodDouble


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def double(clock: ManualClock) -> Iterator[RunPodDouble]:
    with RunPodDouble(clock) as made:
        yield made
        assert made.violations == []


@pytest.fixture
def provider(double: RunPodDouble, clock: ManualClock, tmp_path: Path) -> RunPodProvider:
    access = Access(KEY, double.url, proxy="http://127.0.0.1:9/{id}/{port}")
    return RunPodProvider(access, Store(tmp_path), Keys(tmp_path), clock)


async def created(provider: RunPodProvider) -> Pod:
    wanted = order()
    return await provider.create(wanted, await provider.plan(wanted), "n", lambda line: None)


class Said(list[str]):
    def words(self) -> list[str]:
        """Each thing once, without the time."""
        return list(dict.fromkeys(line.partition("  ")[2].partition(" (")[0] for line in self))


async def test_every_phase_is_said_and_its_duration_learnt(
    provider: RunPodProvider, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await created(provider)
    answers: Iterator[tuple[Phase, str]] = iter(
        [("bridge", ""), ("bridge", ""), ("engine", "loading"), ("serving", "")]
    )

    async def inside(target: object) -> tuple[Phase, str]:
        return next(answers)

    monkeypatch.setattr(waiting, "_inside", inside)
    said = Said()
    learnt: dict[str, float] = {}
    served = await waiting.serving(provider, pod.id, clock, said.append, learn=learnt.__setitem__)
    assert served.id == pod.id
    assert said.words() == [
        "RunPod looks for a machine",
        "its container starts",
        "no container yet: its image is being pulled",
        "the pod's bridge comes up",
        "loading",
        "serving",
    ]
    assert list(learnt) == ["machine", "container", "image", "bridge", "engine"]
    assert learnt["image"] == pytest.approx(60.0, abs=5)


async def test_a_bridge_that_nobody_hears_is_waited_for_then_given_up(
    provider: RunPodProvider, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await created(provider)
    clock.pass_(200)
    with pytest.raises(Unreachable, match="does not serve after 30 s: the pod's bridge comes up"):
        await waiting.serving(provider, pod.id, clock, lambda line: None, within_s=30)
    monkeypatch.setitem(phases.LIMIT_S, "bridge", 10)
    with pytest.raises(Unreachable, match="is stuck") as caught:
        await waiting.serving(provider, pod.id, clock, lambda line: None)
    assert "pod terminate" in caught.value.remedy


async def test_a_start_that_waits_for_something_says_for_what(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    said_last = "not what is published: HTTP 404"
    double.cloud.lines = ["noise", f"passerelle: {said_last}", "passerelle: SSH: sshd runs"]
    said = Said()
    clock.pass_(200)
    with pytest.raises(Unreachable, match=f"the pod's start: {said_last}"):
        await waiting.serving(provider, pod.id, clock, said.append, within_s=60)
    assert said.words() == ["the pod's bridge comes up", f"the pod's start: {said_last}"]


async def test_a_provider_that_does_not_answer_for_a_moment_ends_no_wait(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)

    class Troubled(ManualClock):
        async def sleep(self, seconds: float) -> None:
            double.cloud.faults.gateway = {1: 3, 2: 3}.get(len(self.slept), 0)
            clock.pass_(seconds)
            await super().sleep(seconds)

    said = Said()
    with pytest.raises(Unreachable, match="does not serve after 60 s"):
        await waiting.serving(provider, pod.id, Troubled(clock.now()), said.append, within_s=60)
    assert any("HTTP 502" in line for line in said)
    double.cloud.faults.gateway = 10_000
    with pytest.raises(Unreachable, match="HTTP 502"):
        await waiting.serving(provider, pod.id, clock, said.append)


async def test_what_will_never_serve_is_said_at_once(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    double.cloud.faults.broken = True
    clock.pass_(200)
    with pytest.raises(Refused, match="unrecoverable"):
        await waiting.serving(provider, pod.id, clock, lambda line: None)
    double.cloud.faults.broken = False
    await provider.stop(pod.id)
    clock.pass_(10)
    with pytest.raises(Refused, match="is EXITED"):
        await waiting.serving(provider, pod.id, clock, lambda line: None)


async def test_a_stop_is_verified_and_asked_again(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(200)
    double.cloud.faults.stop_ignored = 1
    said = Said()
    stopped = await waiting.exited(provider, pod.id, clock, said.append)
    assert stopped.state == "EXITED"
    stops = [seen for seen in double.seen if seen.body == {"action": "stop"}]
    assert len(stops) == 2


async def test_a_provider_that_is_silent_meanwhile_has_not_stopped_it(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(200)

    class Silent(ManualClock):
        async def sleep(self, seconds: float) -> None:
            double.cloud.faults.gateway = 3 if len(self.slept) == 0 else 0
            clock.pass_(seconds)
            await super().sleep(seconds)

    said = Said()
    assert (await waiting.exited(provider, pod.id, Silent(clock.now()), said.append)).state == "EXITED"
    assert any("HTTP 502" in line for line in said)


async def test_a_second_asking_that_nobody_hears_ends_no_wait(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(200)
    double.cloud.faults.stop_ignored = 1

    class Troubled(ManualClock):
        async def sleep(self, seconds: float) -> None:
            double.cloud.faults.gateway = 3 if 16 <= sum(self.slept) <= 22 else 0
            clock.pass_(seconds)
            await super().sleep(seconds)

    assert (await waiting.exited(provider, pod.id, Troubled(clock.now()), lambda line: None)).state == "EXITED"


async def test_a_stop_that_never_comes_is_an_error_that_says_what_it_may_cost(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(200)
    double.cloud.faults.stop_ignored = 10_000
    with pytest.raises(Unreachable, match="it may still cost"):
        await waiting.exited(provider, pod.id, clock, lambda line: None)
    assert PodId(pod.id) in double.cloud.pods


async def test_a_pod_without_the_bridges_port(provider: RunPodProvider, clock: ManualClock) -> None:
    wanted = replace(order(), ports=("22/tcp",))
    pod = await provider.create(wanted, await provider.plan(wanted), "n", lambda line: None)
    clock.pass_(200)
    with pytest.raises(Refused, match="no port for its bridge"):
        await waiting.serving(provider, pod.id, clock, lambda line: None)
