"""What a keeper does about what its machine asks for, with children of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.errors import Problem
from bootstrap.keeper import Keeper, Launch, get
from bootstrap.logtap import Journal
from bootstrap.machine import BRIDGE, ENGINE, Probed, RestartRequested, Service, StopRequested, Tick
from bootstrap.processes import Children, OnExit, OnOutput
from bootstrap.redact import Redactor
from bootstrap.runner import free_port
from tests.bootstrap.deadline import until

LAUNCH = Launch("bridge", ("bridge", "--api-key", "x"), {"A": "1"}, "http://127.0.0.1:1/healthz", (7,))


class Fakes(Children):
    """Children that live in a list."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.exits: dict[int, OnExit] = {}
        self.outputs: dict[int, OnOutput] = {}
        self.left: list[set[int]] = []
        self.missing = False

    def spawn(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        on_output: OnOutput,
        on_exit: OnExit,
        fds: tuple[int, ...] = (),
    ) -> int:
        assert (argv, env, fds) == (LAUNCH.argv, LAUNCH.env, LAUNCH.pass_fds)
        if self.missing:
            raise Problem("cannot start bridge: No such file or directory")
        pid = 100 + len(self.exits)
        self.exits[pid], self.outputs[pid] = on_exit, on_output
        self.done.append(("spawn", pid))
        return pid

    def terminate(self, pid: int) -> None:
        self.done.append(("terminate", pid))

    def kill(self, pid: int) -> None:
        self.done.append(("kill", pid))

    def orphans(self) -> set[int]:
        return self.left.pop() if self.left else set()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path, Redactor(()), lambda: 0.0)
    yield journal
    journal.close()


async def test_a_life(journal: Journal) -> None:
    fakes = Fakes()
    keeper = Keeper(LAUNCH, BRIDGE, fakes, journal, lambda: 0.0)
    keeper.post(RestartRequested())
    keeper.post(Probed(100, None))
    assert keeper.view().state == "serving"
    fakes.outputs[100](b"warning: slow\n")
    fakes.exits[100](100, "killed by SIGKILL")
    seen = keeper.view()
    assert (seen.pid, seen.last_exit, seen.restarts) == (101, "killed by SIGKILL", 1)
    keeper.post(Probed(101, None))
    keeper.post(RestartRequested())
    keeper.post(StopRequested(3.0))
    for pid in (101, 102):
        assert not keeper.stopped.is_set()
        fakes.exits[pid](pid, "exit code 0")
    assert keeper.stopped.is_set()
    assert fakes.done == [("spawn", 100), ("spawn", 101), ("terminate", 101), ("spawn", 102), ("terminate", 102)]
    said = [(line.source, line.level, line.text) for line in journal.since(0)[0]]
    assert ("bridge", "warning", "slow") in said
    assert ("bootstrap", "info", "bridge: pid 100 ended: killed by SIGKILL") in said
    assert said[-1] == ("bootstrap", "info", "bridge: stopped")


async def test_a_program_that_is_not_there_is_a_death_like_any_other(journal: Journal) -> None:
    fakes, now = Fakes(), [0.0]
    fakes.missing = True
    keeper = Keeper(LAUNCH, ENGINE, fakes, journal, lambda: now[0])
    keeper.post(RestartRequested())
    for _ in range(10):
        now[0] += 60.0
        keeper.post(Tick())
    seen = keeper.view()
    assert (seen.state, seen.restarts, seen.next_start_s) == ("fatal", 5, None)
    assert seen.last_exit == "cannot start bridge: No such file or directory"


async def test_what_a_dead_engine_left_is_killed_before_its_death_counts(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr("bootstrap.keeper.kill", killed.extend)
    fakes, now = Fakes(), [0.0]
    keeper = Keeper(replace(LAUNCH, name="engine"), ENGINE, fakes, journal, lambda: now[0])
    keeper.post(RestartRequested())
    fakes.left = [{7}, {7}]
    fakes.exits[100](100, "exit code 1")
    assert (killed, keeper.service.pid) == ([7], 100)
    keeper.tick()
    assert (killed, keeper.service.pid) == ([7, 7], 100)
    keeper.tick()
    assert keeper.service.pid == 101
    # What cannot be got rid of does not keep the engine down for ever.
    fakes.left = [{8}, {8}]
    fakes.exits[101](101, "exit code 1")
    now[0] += 60.0
    keeper.tick()
    assert "engine: pid 101 ended: exit code 1; [8] of it still live" in [line.text for line in journal.since(0)[0]]
    assert keeper.view().state == "backoff"


async def test_probes_that_fail_kill_and_it_is_said_why(journal: Journal) -> None:
    fakes = Fakes()
    keeper = Keeper(LAUNCH, BRIDGE, fakes, journal, lambda: 0.0)
    keeper.post(RestartRequested())
    for fault in (None, "HTTP 503", "HTTP 503", "HTTP 503"):
        keeper.post(Probed(100, fault))
    assert fakes.done[-1] == ("kill", 100)
    last = journal.since(0)[0][-1]
    assert last.text == "bridge: killing pid 100: did not answer 3 probes in a row (HTTP 503)"
    assert last.level == "error"


async def test_probing_asks_the_service_over_http(journal: Journal) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as (port, asked), asyncio.TaskGroup() as tasks:
        launch = replace(LAUNCH, health=f"http://127.0.0.1:{port}/healthz")
        keeper = Keeper(launch, BRIDGE, Fakes(), journal, lambda: 0.0)
        keeper.post(RestartRequested())
        probing = tasks.create_task(keeper.probe())
        await until(lambda: keeper.service.phase == "serving")
        probing.cancel()
    assert asked == [b"GET /healthz HTTP/1.1\r\n"]


async def test_a_silent_engine_is_said_once_and_said_again_when_it_answers(journal: Journal) -> None:
    replies = [b"HTTP/1.1 200 OK\r\n\r\n", *[b"HTTP/1.1 503 x\r\n\r\n"] * 3, b"HTTP/1.1 200 OK\r\n\r\n"]
    async with answering(*replies) as (port, asked), asyncio.TaskGroup() as tasks:
        keeper = Keeper(replace(LAUNCH, health=f"http://127.0.0.1:{port}/h"), ENGINE, Fakes(), journal, lambda: 0.0)
        keeper.post(RestartRequested())
        probing = tasks.create_task(keeper.probe(every_s=0.0))
        await until(lambda: len(asked) > 5)
        probing.cancel()
    said = [(line.level, line.text) for line in journal.since(0)[0]]
    assert said[-2:] == [("warning", "bridge: /h: HTTP 503"), ("info", "bridge: answers again")]


async def test_the_view_counts_ages_and_hides_secrets(journal: Journal) -> None:
    now = [12.5]
    keeper = Keeper(LAUNCH, BRIDGE, Fakes(), journal, lambda: now[0])
    keeper.service = Service(BRIDGE, phase="serving", since=10.0, pid=7, starts=3, draining={3: 99.0}, deadline=20.0)
    seen = keeper.view()
    assert (seen.state, seen.pid, seen.since_s, seen.restarts, seen.draining) == ("serving", 7, 2.5, 2, 1)
    assert (seen.next_start_s, seen.last_exit, seen.command) == (None, None, ("bridge", "--api-key", "[redacted]"))
    keeper.service = replace(keeper.service, phase="backoff", pid=None)
    assert keeper.view().next_start_s == 7.5
    now[0] = 21.0
    assert keeper.view().next_start_s == 0.0


@asynccontextmanager
async def answering(*answers: bytes | None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that reads a request and sends the next of these, the last again and again, or stays silent on None."""
    over = asyncio.Event()
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        answer = answers[min(len(asked), len(answers)) - 1]
        if answer is None:
            await over.wait()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        over.set()
        server.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "/health: HTTP 503"),
        (b"SSH-2.0-x\r\n", "/health: closed without an HTTP answer"),
        (b"", "/health: closed without an HTTP answer"),
        (None, "/health: no answer in 0.05 s"),
    ],
)
async def test_get(answer: bytes | None, reason: str | None) -> None:
    async with answering(answer) as (port, _):
        assert await get(f"http://127.0.0.1:{port}/health", 0.05 if answer is None else 5.0) == reason


async def test_get_where_nobody_listens() -> None:
    reason = await get(f"http://127.0.0.1:{free_port()}/health", 5.0)
    assert reason is not None
    assert "refused" in reason.lower() or "connect" in reason.lower()
