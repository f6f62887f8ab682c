"""A program that is kept running: started again with a pause, ended in order, gone with whoever keeps it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from control.fleet import programs
from control.fleet.programs import Program

pytestmark = pytest.mark.process

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def program(tmp_path: Path, code: str, may: Callable[[], bool] = lambda: True) -> Program:
    return Program("router", tmp_path / "router.log", lambda: ((sys.executable, "-c", code), dict(os.environ), ()), may)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nothing signals what other processes do
            await asyncio.sleep(0.01)


async def test_it_is_started_again_however_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "BACKOFF_S", (0.01,))
    one = program(tmp_path, "raise SystemExit(3)")
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(one.keep())
        await until(lambda: one.starts >= 3)
        assert one.status().last_exit == "exit code 3"
        one.start = program(tmp_path, SLEEPS).start
        await until(lambda: one.log.exists() and b"up" in one.log.read_bytes())
        assert one.process is not None
        one.process.send_signal(signal.SIGKILL)
        await until(lambda: one.status().last_exit == "killed by SIGKILL")
        keeping.cancel()
    await one.end(1, 5.0)
    assert not one.status().running


async def test_it_waits_until_it_may_start(tmp_path: Path) -> None:
    may = [False]
    one = program(tmp_path, SLEEPS, lambda: may[0])
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(one.keep())
        await asyncio.sleep(0.05)
        assert one.starts == 0
        assert one.status().restarts == 0
        may[0] = True
        await until(lambda: one.process is not None)
        keeping.cancel()
    await one.end(1, 5.0)


async def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    one = program(tmp_path, STUBBORN)
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(one.keep())
        await until(lambda: one.log.exists() and b"up" in one.log.read_bytes())
        keeping.cancel()
    process = one.process
    assert process is not None
    await one.end(2, 0.1)
    assert process.returncode == -signal.SIGKILL


async def test_a_log_that_has_grown_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LOG_MOST", 10)
    (tmp_path / "router.log").write_bytes(b"x" * 11)
    one = program(tmp_path, SLEEPS)
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(one.keep())
        await until(lambda: one.process is not None)
        keeping.cancel()
    await one.end(1, 5.0)
    assert (tmp_path / "router.log.1").read_bytes() == b"x" * 11


KEEPER = """
import asyncio, os, sys
from pathlib import Path
from control.fleet.programs import Program
start = lambda: ((sys.executable, "-c", sys.argv[2]), dict(os.environ), ())
one = Program("router", Path(sys.argv[1]), start, lambda: True)
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(one.keep())
        while one.process is None:
            await asyncio.sleep(0.01)
        print(one.process.pid, flush=True)
asyncio.run(main())
"""


def test_it_dies_with_its_keeper(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KEEPER, str(tmp_path / "x.log"), SLEEPS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        keeper.kill()
    asyncio.run(until(lambda: gone(pid)))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True
