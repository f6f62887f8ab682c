"""A process of ours is never mistaken for another of the same pid."""

from __future__ import annotations

import subprocess
import sys

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
