"""Real children: how they end, what they leave, and that they do not outlive us."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.errors import Problem
from bootstrap.processes import Children, descendants, describe, kill, living, state_and_parent
from tests.bootstrap.deadline import until

SLEEP = "import time; time.sleep(600)"


def test_a_command_may_be_called_anything() -> None:
    assert state_and_parent("42 (a) b) (c) S 1 42 40 0 -1 4194560 1") == ("S", 1)


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
    assert children.orphans() == {left}
    kill([left])
    await until(lambda: not children.orphans())


@pytest.mark.process
async def test_kill_takes_the_descendants_too(children: Children) -> None:
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
    child = Child(children, f"{code}; print(p.pid, flush=True); p.wait()")
    await until(lambda: child.written.endswith(b"\n"))
    grandchild = int(child.written)
    children.kill(child.pid)
    await until(lambda: child.ended)
    assert child.ended == "killed by SIGKILL"
    await until(lambda: grandchild not in living())


@pytest.mark.process
async def test_a_child_that_is_reaped_is_never_signalled(children: Children) -> None:
    child = Child(children, "")
    await until(lambda: child.ended)
    children.terminate(child.pid)
    children.kill(child.pid)
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
