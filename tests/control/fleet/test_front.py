"""Agents on a fleet of real processes behind the real vllm-router: where conversations stay, and what a death costs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from control.bench.agents import Turn
from control.fleet import life
from control.local import processes
from control.local.provider import LocalProvider, Options
from control.local.store import Store
from control.models import PodId
from control.observe.snapshot import Verdict
from control.store import home
from tests.control.fleet.made import FAST, Made, cached_share, made, until, work

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

TURNS = 6


async def test_conversations_stay_where_their_prefix_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_fleet: list[Turn] = []
    async with made(tmp_path, monkeypatch) as night:
        before = await night.status()
        await night.work(TURNS, on_fleet.append)
        after, snap = await night.status(), await night.look()
    assert [turn.stop for turn in on_fleet if not turn.ok] == []
    assert len(on_fleet) == 6 * TURNS
    assert [row.moved for row in after.replicas] == [0, 0, 0]
    # What the bridge itself asked at its start is a conversation or two as well.
    asked = [row.conversations for row in after.replicas]
    assert 6 <= sum(asked) <= 6 + 2 + sum(row.conversations for row in before.replicas)
    assert max(asked) - min(asked) <= 2

    on_one: list[Turn] = []
    provider = LocalProvider(tmp_path)
    pod = await provider.create(Options(sim=FAST))
    try:
        assert await life.wait_serving([pod.id], lambda _: None, 30.0) == ()
        await work(pod.url or "", (await provider.tokens(pod.id)).client, TURNS, on_one.append)
    finally:
        await provider.terminate(pod.id)
    assert cached_share(on_one) > 0.9
    assert cached_share(on_fleet) == pytest.approx(cached_share(on_one), abs=0.02)

    assert snap.verdict is Verdict.HEALTHY
    for row in snap.replicas:
        assert row.cache_hit_rate_ever is not None
        assert row.cache_hit_rate_ever > 0.6
        assert (row.running, row.waiting, row.takes, row.cost_per_hour) == (0, 0, "serving", 0.74)
    assert snap.cost_per_hour == pytest.approx(3 * 0.74)


async def test_a_replica_that_dies_costs_the_turns_that_it_ran_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[Turn] = []
    async with made(tmp_path, monkeypatch) as night, asyncio.TaskGroup() as group:
        working = group.create_task(night.work(2 * TURNS, turns.append, seed=2))
        await until(lambda: len(turns) >= 12 or working.done(), 60)
        victim, at_work = await kill_one(night)
        await working
        failed = [turn for turn in turns if not turn.ok]
        assert len(failed) <= at_work
        assert max(Counter(turn.agent for turn in failed).values(), default=0) <= 1
        done = Counter(turn.agent for turn in turns if turn.ok)
        assert done == dict.fromkeys(range(1, 7), 2 * TURNS)

        status = await night.status()
        lost = next(row for row in status.replicas if row.id == victim)
        assert lost.moved >= 1
        assert [row.moved for row in status.replicas if row.id != victim] == [0, 0]
        async with asyncio.timeout(30):
            while lost.state != "down":
                await asyncio.sleep(0.2)
                lost = next(row for row in (await night.status()).replicas if row.id == victim)
        snap = await night.look()
        assert snap.verdict is Verdict.WARNING
        assert [row.takes for row in snap.replicas if row.id != victim] == ["serving", "serving"]
        assert any(problem.startswith(f"{victim} takes no turns") for problem in snap.problems)


async def kill_one(night: Made) -> tuple[str, int]:
    """A whole pod, while it runs turns: its id, and how many conversations it had."""
    async with asyncio.timeout(30):
        while True:
            busy = max((await night.status()).replicas, key=lambda row: row.turns)
            if busy.turns:
                break
            await asyncio.sleep(0.01)
    supervisor = Store(home()).load(PodId(busy.id)).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    return busy.id, busy.conversations


async def test_the_front_mends_itself_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with made(tmp_path, monkeypatch, replicas=2) as night:
        front = life.running(night.fleets, "night")
        assert front is not None
        family = processes.family(front.process)
        assert len(family) == 3
        for process in family[1:]:
            os.kill(process.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            while [program.restarts for program in (await night.status()).programs] != [1, 1]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert await life.ready(night.fleets, night.fleet, 30.0)
        turns: list[Turn] = []
        await night.work(1, turns.append)
        assert [turn.stop for turn in turns if not turn.ok] == []
        family = processes.family(front.process)
        await life.stop_front(night.fleets, "night")
        await life.stop_front(night.fleets, "night")
        assert [process for process in family if processes.alive(process)] == []
        assert (await night.look()).verdict is Verdict.UNREACHABLE

        await life.start_front(night.fleets, night.fleet)
        front = life.running(night.fleets, "night")
        assert front is not None
        family = processes.family(front.process)
        os.kill(front.process.pid, signal.SIGKILL)
        await until(lambda: not any(processes.alive(process) for process in family), 10)


async def test_no_secret_is_in_a_process_list_or_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with made(tmp_path, monkeypatch, replicas=1) as night:
        front = life.running(night.fleets, "night")
        assert front is not None
        tokens = night.fleets.tokens("night")
        await night.work(1, lambda _: None)
        secrets = (front.secret, tokens.client, tokens.operator)
        commands = [command_line(process.pid) for process in processes.family(front.process)]
        assert len(commands) == 3
        assert not [line for line in commands if any(secret in line for secret in secrets)]
        folder = tmp_path / "fleets" / "night"
        for name in ("front.out", "router.log", "bridge.log"):
            text = (folder / name).read_text()
            assert not [secret for secret in secrets if secret in text], name


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
