"""The whole demo on real processes: six agents, a KV cache too small for them, a bridge killed, a pod stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from bootstrap.report import Status
from control.demo import Work, agents_at_work
from control.local import processes
from control.local.provider import LocalProvider, Options
from control.models import Pod, PodState
from control.observe import scrape
from control.observe.session import PodSession
from control.observe.snapshot import Snapshot, Verdict

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

SMALL_CACHE = ("--sim-kv-tokens", "270000", "--sim-prefill-tokens-per-s", "60000")
"""Room for four of the six: 60 000 tokens each at the start, and not less than one window of 262 144. Prompts are
read fast, so that what waits then waits for the cache."""


def passerelle(home: Path, *argv: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PASSERELLE_HOME": str(home)}
    command = [sys.executable, "-P", "-m", "console", *argv]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout, stdin=subprocess.DEVNULL)


def test_headless_demo_prints_the_last_snapshot_and_leaves_nothing(tmp_path: Path) -> None:
    sim = [f"--sim={flag}" for flag in SMALL_CACHE]
    done = passerelle(tmp_path, "demo", "--headless", "--seconds", "15", "--json", *sim)
    assert done.returncode == 0, done.stderr
    snap = json.loads(done.stdout)
    assert len({(row["session"], row["agent"]) for row in snap["agents"]}) == 6
    assert len({row["session"] for row in snap["agents"]}) == 6
    assert snap["verdict"] in ("healthy", "warning")
    assert {finding["id"] for finding in snap["findings"]} <= {"kv-capacity", "prefill-queue"}
    assert snap["pod"]["state"] == "RUNNING"
    assert snap["pod"]["cost_per_hour"] == 0.74
    assert snap["pod"]["cost_accrued"] == pytest.approx(0.74 * snap["pod"]["uptime_s"] / 3600)
    assert snap["pod"]["cuda"] is None
    engine = snap["engine"]
    assert (engine["state"], engine["simulated"], engine["model"]) == ("serving", True, "qwen3-coder")
    assert isinstance(engine["waiting"]["capacity"], int)
    assert engine["waiting"]["deferred"] == 0
    assert 0 <= engine["kv_usage"] <= 1
    assert engine["prefill_tok_s"] > 0
    assert engine["totals"]["generation"] > 0
    assert 0 <= snap["bridge"]["upstreams"] <= snap["bridge"]["turns"]
    assert snap["bridge"]["orphans"] == 0
    assert {light["name"]: light["state"] for light in snap["lights"]} == dict.fromkeys(
        ("provider", "port", "bridge", "scrape", "tokens"), "good"
    )
    assert not list((tmp_path / "pods").iterdir())


class Watched:
    """A watch in progress: every snapshot with the moment at which it came."""

    def __init__(self) -> None:
        self.snaps: list[tuple[float, Snapshot]] = []

    def publish(self, snap: Snapshot) -> None:
        self.snaps.append((time.monotonic(), snap))

    async def until(self, holds: Callable[[Snapshot], bool], within: float) -> tuple[float, Snapshot]:
        """The first snapshot from now on that holds, and when it came."""
        begin, deadline = len(self.snaps), time.monotonic() + within
        while time.monotonic() < deadline:
            for moment, snap in self.snaps[begin:]:
                if holds(snap):
                    return moment, snap
            await asyncio.sleep(0.02)
        raise TimeoutError(f"not seen within {within} s; last: {self.snaps[-1][1] if self.snaps else None}")


async def engine_waits(port: int, within: float) -> float:
    """The moment at which the engine's own /metrics first say that requests wait for capacity."""
    deadline = time.monotonic() + within
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        while time.monotonic() < deadline:
            found = scrape.parse((await client.get("/metrics")).text)
            if found.waiting_capacity:
                return time.monotonic()
            await asyncio.sleep(0.05)
    raise TimeoutError("the engine never had a request waiting for capacity")


def engine_port(status: Status) -> int:
    argv = status.engine.command
    return int(argv[argv.index("--port") + 1])


async def test_waits_are_seen_a_killed_bridge_is_back_and_a_stop_is_verified(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path)
    pod = await provider.create(Options(sim=SMALL_CACHE))
    try:
        tokens = await provider.tokens(pod.id)
        session = await PodSession.open(provider, pod)
        watched = Watched()
        with agents_at_work(provider.logs(pod.id) / "agents.log", pod.url or "", tokens.client, Work()):
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(session.run(watched.publish))
                await _waits_are_said_in_time(watched, session)
                await _a_killed_bridge_is_back(watched, session, pod)
                await _a_restarted_bridge_is_counted(watched, session)
                await _a_stop_is_verified(watched, session, provider, pod)
                watching.cancel()
    finally:
        await provider.terminate(pod.id)


async def _waits_are_said_in_time(watched: Watched, session: PodSession) -> None:
    _, first = await watched.until(lambda snap: snap.engine.state == "serving", 20)
    port = engine_port(await session.supervisor_status())
    async with asyncio.TaskGroup() as both:
        truth = both.create_task(engine_waits(port, 60))
        told = both.create_task(watched.until(lambda snap: (snap.engine.waiting.capacity or 0) > 0, 60))
    assert told.result()[0] - truth.result() < 3.0
    _, named = await watched.until(lambda snap: "kv-capacity" in {f.id for f in snap.findings}, 10)
    assert named.verdict is Verdict.WARNING
    assert first.verdict is not Verdict.UNREACHABLE


async def _a_killed_bridge_is_back(watched: Watched, session: PodSession, pod: Pod) -> None:
    status = await session.supervisor_status()
    assert status.bridge.pid is not None
    killed = time.monotonic()
    os.kill(status.bridge.pid, signal.SIGKILL)
    async with httpx.AsyncClient(base_url=pod.url or "", trust_env=False, timeout=5) as client:
        while True:
            try:
                if (await client.get("/healthz")).status_code == 200:
                    break
            except httpx.HTTPError:
                await asyncio.sleep(0.02)
            assert time.monotonic() - killed < 10
    back = time.monotonic() - killed
    assert back < 2.0
    _, snap = await watched.until(lambda snap: snap.bridge.restarts == 1, 10)
    assert snap.pod.state == "RUNNING"
    await watched.until(lambda snap: (snap.bridge.turns or 0) >= 3 and snap.verdict is not Verdict.UNREACHABLE, 30)


async def _a_restarted_bridge_is_counted(watched: Watched, session: PodSession) -> None:
    await session.restart_bridge()
    await watched.until(lambda snap: snap.bridge.restarts == 2, 10)


async def _a_stop_is_verified(watched: Watched, session: PodSession, provider: LocalProvider, pod: Pod) -> None:
    status = await session.supervisor_status()
    family = processes.family(processes.mark(status.pid))
    assert len(family) >= 3, "supervisor, engine, bridge"
    asked = time.monotonic()
    await session.stop()
    moment, snap = await watched.until(lambda snap: snap.pod.state == "EXITED", 15)
    assert moment - asked < 11.0
    assert snap.verdict is Verdict.STOPPED
    assert [process for process in family if processes.alive(process)] == []
    assert processes.port_is_free(int((pod.url or "").rpartition(":")[2]))
    assert (await provider.get(pod.id)).state is PodState.EXITED
    spent = snap.pod.cost_accrued
    later = (await watched.until(lambda later: later.at > snap.at + 1, 5))[1]
    assert later.pod.cost_accrued == spent, "a stopped pod's meter stands still"
