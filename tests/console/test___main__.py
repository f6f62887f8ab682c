"""`passerelle` on a real terminal: the screen over a real pod, one key that stops it, and the last word."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.terminal import Terminal
from control.local.provider import LocalProvider, Options
from control.models import Pod, PodState

pytestmark = pytest.mark.process

PASSERELLE = [sys.executable, "-P", "-m", "console"]


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    provider = LocalProvider(tmp_path)
    made = asyncio.run(provider.create(Options()))
    yield made
    asyncio.run(provider.terminate(made.id))


def test_one_key_stops_the_pod_and_the_screen_says_that_it_is_verified(pod: Pod, tmp_path: Path) -> None:
    with Terminal([*PASSERELLE, "watch", pod.id], {"PASSERELLE_HOME": str(tmp_path)}) as screen:
        screen.read_until("SERVING", 30)
        screen.type("s")
        screen.read_until("STOPPING in", 10)
        screen.type("\r")
        screen.read_until("EXITED, verified", 20)
        assert asyncio.run(LocalProvider(tmp_path).get(pod.id)).state is PodState.EXITED
        screen.type("q")
        assert screen.exit_code(10) == 0
        assert f"pod {pod.id} is EXITED, verified".encode() in screen.drawn


def test_leaving_says_what_goes_on_costing_and_escape_takes_a_stop_back(pod: Pod, tmp_path: Path) -> None:
    with Terminal([*PASSERELLE, "watch"], {"PASSERELLE_HOME": str(tmp_path)}, 80, 24) as screen:
        screen.read_until("SERVING", 30)
        screen.type("s")
        screen.read_until("STOPPING in", 10)
        screen.type("\x1b")
        screen.read_for(4.0)
        assert asyncio.run(LocalProvider(tmp_path).get(pod.id)).state is PodState.RUNNING
        screen.type("q")
        assert screen.exit_code(10) == 0
        assert f"pod {pod.id} keeps running".encode() in screen.drawn
        assert b"0.74 $/h" in screen.drawn
        assert f"passerelle pod stop {pod.id}".encode() in screen.drawn
    assert asyncio.run(LocalProvider(tmp_path).get(pod.id)).state is PodState.RUNNING


def test_without_the_operators_packages_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['click'] = None; from console.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert done.returncode == 2
    assert "pip install 'passerelle[operator]'" in done.stderr
    assert "Traceback" not in done.stderr
