"""The `claude` program: found, asked for its version, and started in another environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from control.claude_code import TESTED, Installed, become, doubt, find
from control.errors import Refused


def program(folder: Path, body: str) -> None:
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.process
@pytest.mark.parametrize(
    ("body", "version"),
    [("echo '2.1.332 (Claude Code)'", "2.1.332"), ("echo no idea", None), ("exit 1", None), ("echo 2.1", None)],
)
def test_its_version(path: Path, body: str, version: str | None) -> None:
    program(path, body)
    assert find() == Installed(str(path / "claude"), version)


def test_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find() is None
    with pytest.raises(Refused, match="no program 'claude'") as caught:
        become(["claude"], {"PATH": str(tmp_path)})
    assert "npm install" in caught.value.remedy


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        (None, "not on PATH"),
        (Installed("/c", None), "does not say its version"),
        (Installed("/c", "2.1.99"), "older than the tested"),
        (Installed("/c", "2.1.1000"), "newer than the tested"),
    ],
)
def test_a_version_that_was_not_tested(installed: Installed | None, words: str) -> None:
    assert words in (doubt(installed) or "")


def test_the_tested_version_is_beyond_doubt() -> None:
    assert doubt(Installed("/c", TESTED)) is None


@pytest.mark.process
def test_it_takes_our_place(path: Path) -> None:
    """One process, with the given environment and nothing else, and its own exit code."""
    program(path, 'echo "$$ $V ${KEY-gone} $1"; exit 7')
    code = "import os; from control.claude_code import become; print(os.getpid(), flush=True); "
    code += f"become(['claude', 'a b'], {{'PATH': {os.environ['PATH']!r}, 'V': 'v'}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "KEY": "k"})
    pid, line = done.stdout.splitlines()
    assert line == f"{pid} v gone a b"
    assert done.returncode == 7
