"""Changes to an environment in the words of a shell, each value quoted so that nothing in it is read as code. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import PurePath

from control.connect import Environment

POWERSHELL_QUOTES = "'\u2018\u2019\u201a\u201b"
"""All of these end a single-quoted string of PowerShell, and each is written twice inside of one."""


def posix(environment: Environment) -> str:
    """bash, zsh, dash, ksh."""
    lines = [f"unset {name}" for name in environment.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in environment.set.items()]
    return "\n".join(lines)


def fish(environment: Environment) -> str:
    lines = [f"set -e {name}" for name in environment.unset]
    lines += [f"set -gx {name} {_fish_quoted(value)}" for name, value in environment.set.items()]
    return "\n".join(lines)


def powershell(environment: Environment) -> str:
    lines = [f"Remove-Item Env:{name} -ErrorAction SilentlyContinue" for name in environment.unset]
    lines += [f"$env:{name} = {_powershell_quoted(value)}" for name, value in environment.set.items()]
    return "\n".join(lines)


def as_json(environment: Environment) -> str:
    return json.dumps({"set": environment.set, "unset": list(environment.unset)}, indent=2, ensure_ascii=False)


WRITERS: dict[str, Callable[[Environment], str]] = {
    "bash": posix,
    "zsh": posix,
    "fish": fish,
    "powershell": powershell,
    "json": as_json,
}


def usual(shell_variable: str | None, windows: bool) -> str:
    """The shell that a command was most likely typed into."""
    name = PurePath(shell_variable or "").name
    if name in WRITERS:
        return name
    return "powershell" if windows else "bash"


def _fish_quoted(value: str) -> str:
    """Inside of single quotes fish reads \\\\ and \\' and nothing else."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _powershell_quoted(value: str) -> str:
    return "'" + "".join(c * 2 if c in POWERSHELL_QUOTES else c for c in value) + "'"
