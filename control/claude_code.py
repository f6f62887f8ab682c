"""The `claude` program on this machine: where it is, which version, and a start of it in another environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from control.errors import Refused

TESTED = "2.1.332"
"""The version that what we say of Claude Code was measured with."""

VERSION_WITHIN_S = 15.0

INSTALL = f"npm install -g @anthropic-ai/claude-code@{TESTED}"


@dataclass(frozen=True, slots=True)
class Installed:
    path: str
    version: str | None
    """None when it did not say."""


def find(name: str = "claude") -> Installed | None:
    """The program on PATH, asked for its version; None when there is none."""
    path = shutil.which(name)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_WITHIN_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return Installed(path, None)
    said = re.match(r"\s*(\d+\.\d+\.\d+)", done.stdout)
    return Installed(path, said[1] if said else None)


def doubt(installed: Installed | None) -> str | None:
    """What is to be said of a version that is not the tested one; None of that one."""
    if installed is None:
        return f"Claude Code is not on PATH: {INSTALL}"
    if installed.version is None:
        return f"{installed.path} does not say its version; these variables were tested with Claude Code {TESTED}"
    if _parts(installed.version) < _parts(TESTED):
        return f"Claude Code {installed.version} is older than the tested {TESTED} and may not know every variable"
    if installed.version != TESTED:
        return f"Claude Code {installed.version} is newer than the tested {TESTED}"
    return None


def become(command: Sequence[str], environ: dict[str, str]) -> int:
    """Run a program in this terminal, in place of us where the system can. Raises Refused when there is none."""
    path = shutil.which(command[0], path=environ.get("PATH"))
    if path is None:
        raise Refused(f"there is no program {command[0]!r} on PATH", INSTALL if command[0] == "claude" else "")
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":
        return subprocess.call([path, *command[1:]], env=environ)
    os.execve(path, [*command], environ)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
