"""Real children: how they end, what they leave, and that they do not outlive us."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.processes import Children, Process, describe, kill, living, parse_stat, with_descendants
from tests.bootstrap.deadline import until

SLEEP = "import time; time.sleep(600)"


def test_a_command_may_be_called_anything() -> None:
    assert parse_stat("42 (a) b) (c) S 1 42 40 0 -1 4194560 1") == Process(42, "S", 1, 42, 40)


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit code 0"), (1 << 8, "exit code 1"), (9, "killed by SIGKILL"), (6 | 0x80, "killed by SIGABRT")],
)
def test_describe(status: int, words: str) -> None:
    assert describe(status) == words


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=30))
def test_descendants_of_any_table_even_one_that_runs_in_circles(parents: list[int]) -> None:
    table = [Process(pid, "S", parent, pid, pid) for pid, parent in enumerate(parents, start=1)]
    found = with_descendants([1], table)
    assert 1 in found
    assert all(process.pid in found for process in table if process.parent in found)
    assert all(pid == 1 or parents[pid - 1] in found for pid in found)


def test_we_are_among_the_living() -> None:
    assert os.getpid() in {process.pid for process in living()}


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    loop = asyncio.get_running_loop()
    children = Children(loop)
    loop.add_signal_handler(signal.SIGCHLD, children.reap)
    yield children
    loop.remove_signal_handler(signal.SIGCHLD)


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
async def test_what_a_dead_child_leaves_in_its_session_and_what_left_its_session(children: Children) -> None:
    leave = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', %r], start_new_session=%s); print(p.pid)"
    )
    child = Child(children, leave % (SLEEP, False))
    await until(lambda: child.ended and child.written.endswith(b"\n"))
    left = int(child.written)
    assert children.remains(child.pid, orphans=False) == {left}
    kill([left])
    await until(lambda: not children.remains(child.pid, orphans=False))


@pytest.mark.process
async def test_kill_takes_the_descendants_too(children: Children) -> None:
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
    child = Child(children, f"{code}; print(p.pid, flush=True); p.wait()")
    await until(lambda: child.written.endswith(b"\n"))
    grandchild = int(child.written)
    children.kill(child.pid)
    await until(lambda: child.ended)
    assert child.ended == "killed by SIGKILL"
    await until(lambda: grandchild not in {process.pid for process in living()})


@pytest.mark.process
async def test_a_child_that_is_reaped_is_never_signalled(children: Children) -> None:
    child = Child(children, "")
    await until(lambda: child.ended)
    children.terminate(child.pid)
    children.kill(child.pid)
    assert child.ended == "exit code 0"


@pytest.mark.process
async def test_a_program_that_is_not_there(children: Children) -> None:
    with pytest.raises(FileNotFoundError):
        children.spawn(("/no/such/program",), {}, lambda _: None, lambda _pid, _how: None)
