"""Real children: how they end, what they leave behind, and that nobody else's process is ever killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.errors import Problem
from bootstrap.processes import Children, Process, descendants, describe, living
from tests.bootstrap.deadline import until

SLEEP = "import time; time.sleep(600)"


@pytest.mark.process
async def test_a_command_may_be_called_anything(children: Children, tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    pid = children.spawn((str(program), "600"), {}, lambda _: None, lambda *_: None)
    assert living()[pid].parent == os.getpid()
    assert living()[pid].name == "a) Z 1 (b"
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
    table = {pid: Process(parent, "x", "1") for pid, parent in enumerate(parents, start=1)}
    found = descendants([1], table)
    assert 1 in found
    assert all(pid in found for pid, process in table.items() if process.parent in found)
    assert all(pid == 1 or table[pid].parent in found for pid in found)


def test_we_are_among_the_living() -> None:
    assert living()[os.getpid()].parent == os.getppid()


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
@pytest.mark.parametrize("looked", [True, False])
async def test_what_a_child_leaves_ends_with_it_whatever_its_session(
    children: Children, session: bool, looked: bool
) -> None:
    """Seen while its parent lived, or known by what it inherited."""
    leave = f"p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session={session})"
    child = Child(children, f"import subprocess, sys, time; {leave}; print(p.pid, flush=True); time.sleep(600)")
    await until(lambda: child.written.endswith(b"\n"))
    left = int(child.written)
    if looked:
        children.look()
    children.signal(child.pid, signal.SIGKILL)
    await until(lambda: child.ended and left not in living())


@pytest.mark.process
async def test_a_daemon_of_a_child_ends_with_it_though_it_became_ours_long_ago(children: Children) -> None:
    daemon = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)\n    os._exit(0)\n"
        "time.sleep(600)"
    )
    child = Child(children, daemon)
    await until(lambda: child.written.endswith(b"\n"))
    left = int(child.written)
    await until(lambda: living()[left].parent == os.getpid())
    children.signal(child.pid, signal.SIGKILL)
    await until(lambda: child.ended and left not in living())


@pytest.mark.process
async def test_what_wiped_its_environment_is_known_if_it_was_seen(children: Children) -> None:
    """As vLLM's processes do, which write their title over it."""
    leave = f"p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], env={{}}); print(p.pid, flush=True)"
    child = Child(children, f"import subprocess, sys, time; {leave}; time.sleep(600)")
    await until(lambda: child.written.endswith(b"\n"))
    children.look()
    children.signal(child.pid, signal.SIGKILL)
    await until(lambda: child.ended and int(child.written) not in living())


@pytest.mark.process
async def test_an_operators_shell_and_another_child_live_on(children: Children) -> None:
    """A process that became ours without being a child's, as a tmux over SSH does under PID 1."""
    fork = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}], stdout=2).pid)"
    shell = int(await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", fork]))
    other, child = Child(children, SLEEP), Child(children, SLEEP)
    try:
        assert living()[shell].parent == os.getpid()
        children.look()
        children.signal(child.pid, signal.SIGKILL)
        await until(lambda: child.ended)
        assert {shell, other.pid} <= living().keys()
    finally:
        os.kill(shell, signal.SIGKILL)
        children.signal(other.pid, signal.SIGKILL)
    await until(lambda: other.ended and shell not in living())


@pytest.mark.process
async def test_names_are_those_of_what_descends_from_a_child(children: Children, tmp_path: Path) -> None:
    core = tmp_path / "VLLM::EngineCore"
    core.symlink_to("/bin/sleep")
    child = Child(children, f"import subprocess, time; subprocess.Popen([{str(core)!r}, '600']); time.sleep(600)")

    def seen() -> bool:
        children.look()
        return "VLLM::EngineCor" in children.names(child.pid)

    await until(seen)
    children.signal(child.pid, signal.SIGKILL)
    await until(lambda: child.ended)
    assert children.names(child.pid) == frozenset()


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
async def test_a_programs_output(children: Children) -> None:
    code = "import sys; print('hello', flush=True); print('there', file=sys.stderr); sys.exit(int(sys.argv[1]))"
    program = (sys.executable, "-c", code)
    assert await children.run((*program, "0"), dict(os.environ), 30.0) == "hello\nthere\n"
    with pytest.raises(Problem, match="exit code 3: hello\nthere"):
        await children.run((*program, "3"), dict(os.environ), 30.0)


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
        await children.run(argv, dict(os.environ), limit)
