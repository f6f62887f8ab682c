"""Real children: how they end, what they leave, that they do not outlive us. And a keeper, with children in a list."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.errors import Problem
from bootstrap.logtap import Journal
from bootstrap.machine import BRIDGE, ENGINE, Probed, RestartRequested, Service, StopRequested, Tick
from bootstrap.processes import (
    Children,
    Keeper,
    Launch,
    OnExit,
    OnOutput,
    descendants,
    describe,
    get,
    living,
)
from bootstrap.redact import Redactor
from bootstrap.runner import free_port
from tests.bootstrap.deadline import until

SLEEP = "import time; time.sleep(600)"


@pytest.mark.process
async def test_a_command_may_be_called_anything(children: Children, tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    pid = children.spawn((str(program), "600"), {}, lambda _: None, lambda *_: None)
    assert living()[pid] == os.getpid()
    children.signal(pid, signal.SIGKILL)
    await until(lambda: pid not in living())


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit code 0"), (1 << 8, "exit code 1"), (9, "killed by SIGKILL"), (6 | 0x80, "killed by SIGABRT")],
)
def test_describe(status: int, words: str) -> None:
    assert describe(status) == words


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=30))
def test_descendants_of_any_table_even_one_that_runs_in_circles(parents: list[int]) -> None:
    table = dict(enumerate(parents, start=1))
    found = descendants([1], table)
    assert 1 in found
    assert all(pid in found for pid, parent in table.items() if parent in found)
    assert all(pid == 1 or table[pid] in found for pid in found)


def test_we_are_among_the_living() -> None:
    assert living()[os.getpid()] == os.getppid()


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    loop = asyncio.get_running_loop()
    children = Children()
    yield children
    loop.remove_signal_handler(signal.SIGCHLD)
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # No longer PR_SET_CHILD_SUBREAPER: the test runner is no supervisor.


class Child:
    """One child, what it wrote and how it ended."""

    def __init__(self, children: Children, code: str) -> None:
        self.written = b""
        self.ended: str | None = None
        self.pid = children.spawn((sys.executable, "-c", code), dict(os.environ), self._wrote, self._ended)

    def _wrote(self, data: bytes) -> None:
        self.written += data

    def _ended(self, pid: int, description: str) -> None:
        assert pid == self.pid
        self.ended = description


@pytest.mark.process
async def test_both_outputs_and_the_end_are_told(children: Children) -> None:
    child = Child(children, "import os, sys; os.write(1, b'out '); os.write(2, b'err'); sys.exit(3)")
    await until(lambda: child.ended)
    assert child.ended == "exit code 3"
    await until(lambda: child.written == b"out err")


@pytest.mark.process
@pytest.mark.parametrize("session", [True, False])
async def test_what_a_dead_child_leaves_is_ours_whatever_its_session(children: Children, session: bool) -> None:
    leave = f"p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session={session}); print(p.pid)"
    child = Child(children, f"import subprocess, sys; {leave}")
    await until(lambda: child.ended and child.written.endswith(b"\n"))
    left = int(child.written)
    assert children.kill_orphans() == {left}
    await until(lambda: not children.kill_orphans())
    assert left not in living()


@pytest.mark.process
async def test_a_child_of_ours_and_its_children_are_no_orphans(children: Children) -> None:
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); print(p.pid, flush=True)"
    child = Child(children, f"{code}; p.wait()")
    await until(lambda: child.written.endswith(b"\n"))
    grandchild = int(child.written)
    assert children.kill_orphans() == set()
    children.signal(child.pid, signal.SIGKILL)
    await until(lambda: child.ended)
    assert child.ended == "killed by SIGKILL"
    assert children.kill_orphans() == {grandchild}


@pytest.mark.process
async def test_a_child_that_is_reaped_is_never_signalled(children: Children) -> None:
    child = Child(children, "")
    await until(lambda: child.ended)
    children.signal(child.pid, signal.SIGTERM)
    assert child.ended == "exit code 0"


@pytest.mark.process
async def test_the_sweep_leaves_nothing(children: Children) -> None:
    child = Child(children, f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}")
    assert await children.sweep(10.0) == set()
    assert child.pid not in living()


@pytest.mark.process
async def test_output_is_what_a_program_prints(children: Children) -> None:
    code = "import sys; print('hello'); sys.exit('no driver')"
    printed = await children.output((sys.executable, "-c", code), dict(os.environ), 30.0)
    assert sorted(printed.split()) == ["driver", "hello", "no"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("argv", "limit", "says"),
    [
        ((sys.executable, "-c", SLEEP), 0.2, "no answer in 0.2 s"),
        (("/no/such/program",), 30.0, "cannot start /no/such/program: No such file or directory"),
    ],
)
async def test_output_that_never_comes(children: Children, argv: tuple[str, ...], limit: float, says: str) -> None:
    with pytest.raises(Problem, match=says):
        await children.output(argv, dict(os.environ), limit)


LAUNCH = Launch("bridge", ("bridge", "--api-key", "x"), {"A": "1"}, "http://127.0.0.1:1/healthz", 7)


class Fakes(Children):
    """Children that live in a list."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.exits: dict[int, OnExit] = {}
        self.outputs: dict[int, OnOutput] = {}
        self.missing = False

    def spawn(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        on_output: OnOutput,
        on_exit: OnExit,
        fd: int | None = None,
    ) -> int:
        assert (argv, env, fd) == (LAUNCH.argv, LAUNCH.env, LAUNCH.fd)
        if self.missing:
            raise Problem("cannot start bridge: No such file or directory")
        pid = 100 + len(self.exits)
        self.exits[pid], self.outputs[pid] = on_exit, on_output
        self.done.append(("spawn", pid))
        return pid

    def signal(self, pid: int, number: signal.Signals) -> None:
        self.done.append((number.name, pid))

    def kill_orphans(self) -> set[int]:
        self.done.append(("orphans", 0))
        return set()


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
    assert fakes.done == [("spawn", 100), ("spawn", 101), ("SIGTERM", 101), ("spawn", 102), ("SIGTERM", 102)]
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


async def test_what_a_dead_engine_left_is_killed_before_it_is_started_again(journal: Journal) -> None:
    fakes = Fakes()
    keeper = Keeper(replace(LAUNCH, name="engine"), ENGINE, fakes, journal, lambda: 0.0)
    keeper.post(RestartRequested())
    fakes.exits[100](100, "exit code 1")
    assert fakes.done == [("spawn", 100), ("orphans", 0), ("spawn", 101)]


async def test_probes_that_fail_kill_and_it_is_said_why(journal: Journal) -> None:
    fakes = Fakes()
    keeper = Keeper(LAUNCH, BRIDGE, fakes, journal, lambda: 0.0)
    keeper.post(RestartRequested())
    for fault in (None, "HTTP 503", "HTTP 503", "HTTP 503"):
        keeper.post(Probed(100, fault))
    assert fakes.done[-1] == ("SIGKILL", 100)
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
    assert said[-2:] == [("warning", "bridge: /h: answers 'HTTP/1.1 503 x'"), ("info", "bridge: answers again")]


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
    ended: list[asyncio.Event] = []
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = asyncio.Event()
        ended.append(mine)
        asked.append(await reader.readline())
        answer = answers[min(len(asked), len(answers)) - 1]
        if answer is None:
            await over.wait()
        else:
            writer.write(answer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        mine.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        over.set()
        server.close()
        for each in ended:
            await each.wait()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "/health: answers 'HTTP/1.1 503 Service Unavailable'"),
        (b"SSH-2.0-x\r\n", "/health: answers 'SSH-2.0-x'"),
        (b"", "/health: answers ''"),
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
