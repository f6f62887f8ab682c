"""What a keeper does about what its machine asks for, with children of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from bootstrap.events import HealthFailed, HealthOk, RestartRequested, StartRequested, StopRequested, Tick
from bootstrap.keeper import Keeper, Launch
from bootstrap.logtap import Journal
from bootstrap.processes import Children, OnExit, OnOutput
from bootstrap.redact import Redactor
from bootstrap.service import BRIDGE, ENGINE
from tests.bootstrap.deadline import until

LAUNCH = Launch("bridge", ("bridge", "--x"), {"A": "1"}, "127.0.0.1", 1, "/healthz", owns_orphans=False, pass_fds=(7,))


class Fakes(Children):
    """Children that live in a list."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
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
        pass_fds: tuple[int, ...] = (),
    ) -> int:
        assert (argv, env, pass_fds) == (LAUNCH.argv, LAUNCH.env, LAUNCH.pass_fds)
        if self.missing:
            raise FileNotFoundError(2, "No such file or directory")
        pid = 100 + len(self.exits)
        self.exits[pid], self.outputs[pid] = on_exit, on_output
        self.done.append(("spawn", pid))
        return pid

    def terminate(self, pid: int) -> None:
        self.done.append(("terminate", pid))

    def kill(self, pid: int) -> None:
        self.done.append(("kill", pid))

    def remains(self, pid: int, *, orphans: bool) -> set[int]:
        assert not orphans
        return self.left.pop() if self.left else set()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, Redactor(()), lambda: 0.0)


async def settle() -> None:
    """Let the burials that were begun come to their end."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_life(journal: Journal) -> None:
    fakes, now = Fakes(), [0.0]
    async with asyncio.TaskGroup() as tasks:
        keeper = Keeper(LAUNCH, BRIDGE, fakes, journal, tasks, lambda: now[0])
        keeper.post(StartRequested())
        keeper.post(HealthOk(100))
        assert keeper.view(LAUNCH.argv).state == "serving"
        fakes.outputs[100](b"warning: slow\n")
        fakes.exits[100](100, "killed by SIGKILL")
        await settle()
        assert (keeper.service.pid, keeper.service.last_exit, keeper.service.restarts) == (101, "killed by SIGKILL", 1)
        keeper.post(HealthOk(101))
        keeper.post(RestartRequested())
        keeper.post(StopRequested(3.0))
        for pid in (101, 102):
            assert not keeper.stopped.is_set()
            fakes.exits[pid](pid, "exit code 0")
            await settle()
        assert keeper.stopped.is_set()
    assert fakes.done == [
        ("spawn", 100),
        ("spawn", 101),
        ("terminate", 101),
        ("spawn", 102),
        ("terminate", 102),
    ]
    assert ("bridge", "warning", "slow") in [(line.source, line.level, line.text) for line in journal.since(0)[0]]
    journal.close()


async def test_a_program_that_is_not_there_is_a_death_like_any_other(journal: Journal) -> None:
    fakes, now = Fakes(), [0.0]
    fakes.missing = True
    async with asyncio.TaskGroup() as tasks:
        keeper = Keeper(LAUNCH, ENGINE, fakes, journal, tasks, lambda: now[0])
        keeper.post(StartRequested())
        for _ in range(10):
            now[0] += 60.0
            keeper.post(Tick())
    assert (keeper.service.phase, keeper.service.restarts) == ("fatal", 5)
    assert keeper.service.last_exit == "cannot start bridge: No such file or directory"
    journal.close()


async def test_what_a_dead_process_left_is_killed_before_its_death_counts(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[set[int]] = []
    monkeypatch.setattr("bootstrap.keeper.kill", killed.append)
    fakes, now = Fakes(), [0.0]
    async with asyncio.TaskGroup() as tasks:
        keeper = Keeper(LAUNCH, ENGINE, fakes, journal, tasks, lambda: now[0])
        keeper.post(StartRequested())
        fakes.left = [{7, 8}]
        fakes.exits[100](100, "exit code 1")
        await asyncio.sleep(0)
        assert (killed, keeper.service.pid) == ([{7, 8}], 100)
    assert keeper.service.pid == 101
    journal.close()


async def test_a_probe_that_fails_twice_kills(journal: Journal) -> None:
    fakes, now = Fakes(), [0.0]
    async with asyncio.TaskGroup() as tasks:
        keeper = Keeper(LAUNCH, BRIDGE, fakes, journal, tasks, lambda: now[0])
        for event in (StartRequested(), HealthOk(100), HealthFailed(100, "x"), HealthFailed(100, "x")):
            keeper.post(event)
    assert fakes.done[-1] == ("kill", 100)
    journal.close()


async def test_probing_asks_the_service_over_http(journal: Journal) -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        launch = Launch("bridge", LAUNCH.argv, LAUNCH.env, "127.0.0.1", port, "/healthz", False, LAUNCH.pass_fds)
        async with asyncio.TaskGroup() as tasks:
            keeper = Keeper(launch, BRIDGE, Fakes(), journal, tasks, lambda: 0.0)
            keeper.post(StartRequested())
            probing = tasks.create_task(keeper.probe())
            await until(lambda: keeper.service.phase == "serving")
            probing.cancel()
    assert asked == [b"GET /healthz HTTP/1.1\r\n"]
    journal.close()
