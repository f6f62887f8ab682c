"""What the control socket says, of a pod whose children live in a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bootstrap.answers import Answers
from bootstrap.ctlsocket import Message
from bootstrap.errors import Problem
from bootstrap.launches import Settings
from bootstrap.machine import Event
from bootstrap.pod import Pod
from bootstrap.runner import listen
from tests.bootstrap.deadline import until
from tests.bootstrap.shop import Bench, bench

CONFIG = """
[serve]
model = "a"
[models.a]
repo = "x/a"
names = ["alpha", "first"]
[models.b]
repo = "x/b"
[idle]
stop_after_minutes = 30
"""


class Desk:
    def __init__(self, folder: Path, parts: Bench, listener: Any) -> None:
        (folder / "pod.toml").write_text(CONFIG, encoding="utf-8")
        environ = {"PASSERELLE_CLIENT_TOKEN": "client-token", "PASSERELLE_OPERATOR_TOKEN": "operator-token"}
        settings = Settings(
            folder / "pod.toml", None, folder, folder / "b", "127.0.0.1", 0, 0, ("no-such-vllm", "x"), environ
        )
        self.parts, self.pod = parts, Pod(settings, parts.shop, listener)
        self.answers = Answers(self.pod)

    async def up(self) -> None:
        self.pod.begin()
        await until(lambda: self.pod.fleet.engine and self.pod.fleet.engine.service.phase == "starting")
        assert self.pod.fleet.engine is not None
        self.pod.fleet.engine.tell("answered")

    async def ask(self, **request: Any) -> Message:
        return await self.answers.handle(request)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with bench(tmp_path) as parts:
        with listen("127.0.0.1", 0) as listener:
            yield Desk(tmp_path, parts, listener)


async def test_the_news_of_a_life(desk: Desk) -> None:
    assert (desk.answers.news()["state"], desk.answers.news()["models"]) == ("changing", {})
    desk.pod.begin()
    news = desk.answers.news()
    assert (news["state"], news["url"], news["model"]) == ("changing", None, "a")
    assert news["models"] == {"a": ("alpha", "first"), "b": ("b",)}
    await desk.up()
    engine = desk.pod.fleet.engine
    assert engine is not None
    news = desk.answers.news()
    assert (news["state"], news["url"], news["reason"]) == ("serving", engine.url, None)
    await desk.ask(cmd="restart", service="engine")
    assert desk.answers.news()["reason"] == "the engine is draining"
    await desk.ask(cmd="swap", model="b")
    assert desk.answers.news()["reason"] == "swapping to b"
    await desk.ask(cmd="stop-pod")
    assert (desk.answers.news()["state"], desk.answers.news()["reason"]) == ("down", "the pod is stopping")


async def test_an_engine_that_was_given_up_is_down_with_its_reason(desk: Desk) -> None:
    await desk.up()
    engine = desk.pod.fleet.engine
    assert engine is not None
    for _ in range(6):
        engine.post(Event("exited", engine.service.pid, "exit code 1"))
        desk.parts.now += 60.0
        engine.post(Event("tick"))
        await until(lambda: engine.service.phase in ("starting", "fatal"))
    assert desk.answers.news()["state"] == "down"
    assert "exit code 1" in desk.answers.news()["reason"]


async def test_how_long_it_will_take_is_known_after_the_first_time(desk: Desk) -> None:
    await desk.up()
    assert desk.pod.fleet.eta_s is None
    desk.parts.now = 40.0
    engine = desk.pod.fleet.engine
    assert engine is not None
    engine.post(Event("exited", engine.service.pid, "x"))
    await until(lambda: engine.service.phase == "starting")
    desk.parts.now = 70.0
    engine.tell("answered")
    desk.parts.now = 90.0
    engine.post(Event("exited", engine.service.pid, "x"))
    desk.parts.now = 95.0
    assert desk.pod.fleet.eta_s == 25.0


async def test_streams_are_those_of_all_watchers_that_are_connected(desk: Desk) -> None:
    lines: asyncio.Queue[Message | None] = asyncio.Queue()
    told: list[Message] = []

    async def hear() -> AsyncIterator[Message]:
        while (line := await lines.get()) is not None:
            yield line

    async def tell(message: Message) -> None:
        told.append(message)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(desk.answers.watch(hear(), tell))
        await until(lambda: told)
        assert desk.answers.status(0).live is None
        await lines.put({"live": 3, "clients": 5})
        await until(lambda: desk.answers.status(0).live == 3)
        assert desk.answers.status(0).clients == 5
        desk.pod.begin()
        await until(lambda: len(told) > 1)
        await lines.put(None)
    assert desk.answers.status(0).live is None
    assert [message["model"] for message in told][:2] == [None, "a"]


async def test_a_watcher_that_talks_nonsense_is_left_alone(desk: Desk) -> None:
    async def hear() -> AsyncIterator[Message]:
        yield {"live": "many"}

    async def tell(message: Message) -> None:
        raise OSError("it left")

    await desk.answers.watch(hear(), tell)
    assert desk.pod.watchers == {}


async def test_the_countdown_is_told_and_ends_in_a_stop_that_can_be_put_off(desk: Desk) -> None:
    await desk.up()
    desk.pod._watch_idleness()
    assert desk.answers.status(0).idle.stop_in_s == 3600.0, "longer, before the first request"
    desk.parts.now = 3500.0
    await desk.ask(cmd="keep")
    desk.parts.now = 3700.0
    desk.pod._watch_idleness()
    assert desk.answers.status(0).idle.stop_in_s == 3400.0
    desk.parts.now = 7100.0
    desk.pod._watch_idleness()
    assert desk.pod.stop.is_set()


async def test_a_desktop_that_was_asked_for_outlives_a_restart_of_the_engine(desk: Desk) -> None:
    await desk.up()
    engine = desk.pod.fleet.engine
    assert engine is not None
    await desk.ask(cmd="desktop")
    assert desk.pod.desktop.service.phase == "starting"
    engine.post(Event("exited", engine.service.pid, "exit code 1"))
    await until(lambda: engine.service.starts == 2)
    assert desk.pod.desktop.service.goal == "run"


async def test_the_log_is_told_from_where_one_was(desk: Desk) -> None:
    for number in range(5):
        desk.parts.journal.say("info", f"line {number}")
    told = await desk.ask(cmd="tail", after=2, limit=2)
    assert ([line["text"] for line in told["log"]], told["log_next"]) == (["line 2", "line 3"], 4)
    with pytest.raises(Problem, match="after must be a whole number"):
        await desk.ask(cmd="tail", after="x")


async def test_the_file_is_read_again_when_that_is_asked_for(desk: Desk, tmp_path: Path) -> None:
    await desk.up()
    (tmp_path / "pod.toml").write_text(CONFIG.replace("30", "40"), encoding="utf-8")
    assert (await desk.ask(cmd="apply"))["applied"]["reasons"] == ("[idle] stop_after_minutes: 30 -> 40",)
    (tmp_path / "pod.toml").write_text(CONFIG.replace("idle", "idol"), encoding="utf-8")
    with pytest.raises(Problem, match="unknown section"):
        await desk.ask(cmd="apply")
    assert "unknown section" in (desk.answers.status(0).config_error or "")
    assert desk.answers.status(0).serial == 0
