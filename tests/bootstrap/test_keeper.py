"""A keeper, with children that live in a list, and its probes over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bootstrap.errors import Problem
from bootstrap.keeper import Call, Keeper, Launch, ask
from bootstrap.launches import free_port
from bootstrap.machine import BRIDGE, ENGINE, Event, Service
from tests.bootstrap.answering import answering
from tests.bootstrap.deadline import until
from tests.bootstrap.shop import Bench, bench

LAUNCH = Launch("bridge", ("bridge", "--api-key", "x"), {"A": "1"}, "http://127.0.0.1:1/healthz", fd=7)
PLAIN = replace(ENGINE, prepares=False, drain_s=None)
OK, BUSY = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 503 x\r\n\r\n"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench(tmp_path) as desk:
        yield desk


def post(keeper: Keeper, name: Any, pid: int | None = None, text: str = "", limit_s: float = 10.0) -> None:
    keeper.post(Event(name, pid, text, limit_s))


async def test_a_life(desk: Bench) -> None:
    keeper, news = Keeper(replace(LAUNCH, policy=BRIDGE), desk.shop), desk.shop.changed
    post(keeper, "run")
    assert news.is_set()
    post(keeper, "answered", 100)
    assert keeper.view().state == "serving"
    desk.children.outputs[100](b"warning: slow\n")
    desk.children.end(100, "killed by SIGKILL")
    seen = keeper.view()
    assert (seen.pid, seen.last_exit, seen.restarts) == (101, "killed by SIGKILL", 1)
    post(keeper, "answered", 101)
    post(keeper, "restart")
    post(keeper, "stop", limit_s=3.0)
    for pid in (101, 102):
        assert keeper.service.phase != "stopped"
        desk.children.end(pid, "exit code 0")
    assert keeper.service.phase == "stopped"
    assert desk.children.done == [("spawn", 100), ("spawn", 101), ("SIGTERM", 101), ("spawn", 102), ("SIGTERM", 102)]
    assert desk.children.spawned[0] == (LAUNCH.argv, LAUNCH.env, 7)
    assert ("warning", "slow") in desk.said()
    assert ("info", "bridge: pid 100 ended: killed by SIGKILL") in desk.said()
    assert desk.said()[-1] == ("info", "bridge: stopped")


async def test_a_program_that_is_not_there_is_a_death_like_any_other(desk: Bench) -> None:
    desk.children.missing = True
    keeper = Keeper(replace(LAUNCH, policy=PLAIN), desk.shop)
    post(keeper, "run")
    for _ in range(10):
        desk.now += 60.0
        post(keeper, "tick")
    seen = keeper.view()
    assert (seen.state, seen.restarts, seen.next_start_s) == ("fatal", 5, None)
    assert seen.last_exit == "cannot start it: No such file or directory"


async def test_a_hung_one_writes_its_stacks_and_is_killed_and_it_is_said_why(desk: Bench) -> None:
    keeper = Keeper(replace(LAUNCH, policy=BRIDGE), desk.shop)
    post(keeper, "run")
    post(keeper, "answered", 100)
    for _ in range(2):
        post(keeper, "silent", 100, "HTTP 503")
    assert desk.children.done[-1] == ("SIGUSR1", 100)
    desk.now = 1.0
    post(keeper, "tick")
    assert desk.children.done[-1] == ("SIGKILL", 100)
    assert desk.said()[-1] == ("error", "bridge: killing pid 100: did not answer 2 probes in a row (HTTP 503)")


@pytest.mark.parametrize("changes", [{"argv": ("bridge", "new")}, {"env": {"A": "2"}}])
async def test_another_command_or_environment_restarts_and_the_same_does_not(
    desk: Bench, changes: dict[str, Any]
) -> None:
    keeper = Keeper(replace(LAUNCH, policy=BRIDGE), desk.shop)
    post(keeper, "run")
    post(keeper, "answered", 100)
    keeper.relaunch(replace(LAUNCH, policy=BRIDGE))
    assert keeper.service.pid == 100
    keeper.relaunch(replace(LAUNCH, policy=BRIDGE, **changes))
    assert (keeper.service.pid, keeper.view().draining) == (101, 1)
    assert desk.children.spawned[1] == (keeper.launch.argv, keeper.launch.env, 7)


async def test_being_kept_once_more_does_not_cut_a_backoff_short(desk: Bench) -> None:
    keeper = Keeper(replace(LAUNCH, policy=BRIDGE), desk.shop)
    keeper.keep(keeper.launch)
    for pid in (100, 101):
        desk.children.end(pid, "exit code 1")
        desk.now += 0.5
        post(keeper, "tick")
    desk.children.end(102, "exit code 1")
    keeper.keep(keeper.launch)
    assert keeper.view().state == "backoff"
    keeper.keep(keeper.launch, on=False)
    assert keeper.view().state == "stopped"


async def test_it_is_prepared_before_it_is_started_or_given_up(desk: Bench) -> None:
    refusals: list[str] = ["no GPU"]

    async def prepare() -> None:
        if refusals:
            raise Problem(refusals.pop())

    keeper = Keeper(replace(LAUNCH, policy=ENGINE, prepare=prepare), desk.shop)
    post(keeper, "run")
    assert keeper.service.phase == "preflight"
    await until(lambda: keeper.service.phase == "fatal")
    assert keeper.view().last_exit == "no GPU"
    post(keeper, "run")
    await until(lambda: keeper.service.phase == "starting")


async def test_probing_asks_the_service_over_http(desk: Bench) -> None:
    async with answering(OK) as (port, asked):
        keeper = Keeper(replace(LAUNCH, health=f"http://127.0.0.1:{port}/healthz", policy=BRIDGE), desk.shop)
        post(keeper, "run")
        await until(lambda: keeper.service.phase == "serving")
        post(keeper, "stop")
        desk.children.end(100, "exit code 0")
    assert asked[0] == b"GET /healthz HTTP/1.0\r\n"


async def test_a_silent_engine_is_said_once_and_said_again_when_it_answers(
    desk: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bootstrap.keeper.PROBE_EVERY_S", 0.0)
    async with answering(OK, *[BUSY] * 3, OK) as (port, asked):
        keeper = Keeper(replace(LAUNCH, health=f"http://127.0.0.1:{port}/h", policy=PLAIN), desk.shop)
        post(keeper, "run")
        await until(lambda: len(asked) > 5)
        post(keeper, "stop")
        desk.children.end(100, "exit code 0")
    said = [line for line in desk.said() if "/h:" in line[1] or "again" in line[1]]
    assert said == [("warning", "bridge: /h: answers 'HTTP/1.1 503 x'"), ("info", "bridge: answers again")]


async def test_one_without_a_url_is_well_while_it_writes(desk: Bench) -> None:
    heard: list[str] = []
    keeper = Keeper(Launch("hub", ("worker",), {}, silence_s=60.0, hear=heard.append), desk.shop)
    post(keeper, "run")
    await keeper.check()
    desk.now = 61.0
    with pytest.raises(Problem, match="silent for 60 s"):
        await keeper.check()
    desk.children.outputs[100](b"\n")  # a sign of life, which is not logged
    await keeper.check()
    desk.children.outputs[100](b"config new abc\n")
    assert heard == ["config new abc"]
    assert [text for _, text in desk.said()][-1] == "config new abc"


class Sleeper(Keeper):
    """Sleeps when it is told that it may."""

    calls: list[str]
    refuses = False

    async def call(self, what: Call) -> None:
        self.calls.append(what)
        if self.refuses:
            raise Problem("/sleep: answers 500")

    async def check(self) -> None:
        assert not self._calling, "an engine that falls asleep or wakes up is not probed"


@pytest.mark.parametrize("refuses", [False, True])
async def test_it_sleeps_and_wakes_or_is_killed(desk: Bench, refuses: bool) -> None:
    keeper = Sleeper(replace(LAUNCH, policy=replace(PLAIN, sleeps=True, drain_s=60.0)), desk.shop)
    keeper.calls, keeper.refuses = [], refuses
    post(keeper, "run")
    post(keeper, "answered", 100)
    post(keeper, "rest")
    post(keeper, "drained")
    if refuses:
        await until(lambda: ("SIGKILL", 100) in desk.children.done)
        desk.children.end(100, "killed by SIGKILL")
        assert keeper.service.phase == "stopped"
        assert keeper.view().last_exit == "sleep: /sleep: answers 500"
        return
    await until(lambda: keeper.service.phase == "asleep")
    post(keeper, "run")
    await until(lambda: keeper.service.phase == "serving")
    assert keeper.calls == ["sleep", "wake"]


async def test_the_view_counts_ages_and_hides_secrets(desk: Bench) -> None:
    desk.now = 12.5
    keeper = Keeper(replace(LAUNCH, policy=BRIDGE), desk.shop)
    keeper.service = Service(BRIDGE, phase="serving", since=10.0, pid=7, starts=3, draining={3: 99.0}, took_s=2.5)
    seen = keeper.view()
    assert (seen.state, seen.pid, seen.since_s, seen.restarts, seen.draining) == ("serving", 7, 2.5, 2, 1)
    assert (seen.next_start_s, seen.last_exit, seen.command) == (None, None, ("bridge", "--api-key", "[redacted]"))
    assert seen.took_s == 2.5
    keeper.service = replace(keeper.service, phase="backoff", pid=None, deadline=20.0)
    assert keeper.view().next_start_s == 7.5
    desk.now = 21.0
    assert keeper.view().next_start_s == 0.0


async def test_a_200_gives_its_body() -> None:
    async with answering(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nhello\r\n\r\nthere") as (port, asked):
        assert await ask(f"http://127.0.0.1:{port}/sleep?level=1", 5.0, "POST") == b"hello\r\n\r\nthere"
    assert asked == [b"POST /sleep?level=1 HTTP/1.0\r\n"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "/health: answers 'HTTP/1.1 503 Service Unavailable'"),
        (b"SSH-2.0-x\r\n", "/health: answers 'SSH-2.0-x'"),
        (b"", "/health: answers ''"),
        (None, "/health: no answer in 0.05 s"),
    ],
)
async def test_anything_else_is_a_problem_in_a_few_words(answer: bytes | None, reason: str) -> None:
    async with answering(answer) as (port, _):
        with pytest.raises(Problem) as caught:
            await ask(f"http://127.0.0.1:{port}/health", 0.05 if answer is None else 5.0)
    assert str(caught.value) == reason


async def test_where_nobody_listens() -> None:
    with pytest.raises(Problem, match=r"/health: .*(refused|[Cc]onnect)"):
        await ask(f"http://127.0.0.1:{free_port()}/health", 5.0)
