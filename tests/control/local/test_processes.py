"""A process of ours is never mistaken for another of the same pid."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from control.local import processes
from control.local.store import ProcessMark

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.process
def test_alive_until_it_is_ended_and_a_zombie_is_dead() -> None:
    child = subprocess.Popen(SLEEP)
    try:
        marked = processes.mark(child.pid)
        assert marked is not None
        assert processes.alive(marked)
        assert processes.family(marked) == (marked,)
        assert not processes.alive(ProcessMark(child.pid, marked.created - 5)), "another process of the same pid"
        processes.kill([ProcessMark(child.pid, marked.created - 5)])
        assert processes.alive(marked)
        processes.terminate(marked)
    finally:
        child.terminate()
        child.wait(10)
    assert not processes.alive(marked)
    processes.terminate(marked)
    processes.kill([marked])


@pytest.mark.process
def test_a_spawned_process_has_its_output_in_a_file_and_its_exit_code_once(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['WORD']); sys.stdout.flush(); sys.stderr.write('bad'); sys.exit(3)"
    spawned = processes.spawn([sys.executable, "-c", code], os.environ | {"WORD": "hello"}, tmp_path / "out")
    deadline = time.monotonic() + 20
    while (ended := processes.exit_code(spawned)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ended == 3
    assert (tmp_path / "out").read_text() == "hello\nbad"
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600
    assert not processes.alive(spawned)
    assert processes.exit_code(spawned) is None


def test_what_was_never_marked_is_not_alive() -> None:
    assert not processes.alive(None)
    assert processes.family(None) == ()


def test_a_port_that_is_listened_on_is_not_free() -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not processes.port_is_free(listener.getsockname()[1])
    assert processes.port_is_free(processes.free_port())
