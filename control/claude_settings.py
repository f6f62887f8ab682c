"""A settings file of Claude Code that points a project at a pod: ours goes in, everything of the user's stays."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control.connect import Environment
from control.errors import UsageError
from control.store import write_whole

USUAL = ".claude/settings.local.json"

BEFORE = ".before-passerelle"
"""Added to the name of a copy of the file, made before a value of the user's is replaced for the first time."""

GIT_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Merged:
    settings: dict[str, Any]
    replaced: tuple[str, ...]
    """Names of variables of the user's that had another value."""


def merged(before: dict[str, Any], environment: Environment, status_line: str, name: str) -> Merged:
    """Pure. A settings file cannot take a variable away; an empty value stands for that. A status line that is there
    stays. Raises UsageError for a file whose `env` is no object."""
    env = before.get("env", {})
    if not isinstance(env, dict):
        raise UsageError(f'{name}: "env" should be an object', "mend it; nothing was changed")
    ours = dict.fromkeys(environment.unset, "") | environment.set
    theirs = not all(key in env for key in ours)  # else it is a file that we wrote
    replaced = tuple(key for key, value in ours.items() if theirs and key in env and env[key] != value)
    line = {"type": "command", "command": status_line}
    settings = {**before, "env": {**env, **ours}}
    settings.setdefault("statusLine", line)
    return Merged(settings, replaced)


def read(path: Path) -> dict[str, Any]:
    """Raises UsageError for a file that is there and is no JSON object."""
    try:
        settings = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {error}", "mend it; nothing was changed") from error
    if not isinstance(settings, dict):
        raise UsageError(f"{path} holds no JSON object", "mend it; nothing was changed")
    return settings


def write(path: Path, environment: Environment, status_line: str) -> tuple[str, ...]:
    """Merge into the file, which only its owner may read from now on. Returns the names that were replaced."""
    target = path.resolve()
    found = merged(read(target), environment, status_line, str(path))
    if found.replaced and not (kept := target.with_name(target.name + BEFORE)).exists():
        write_whole(kept, target.read_bytes(), 0o600)
    text = json.dumps(found.settings, indent=2, ensure_ascii=False) + "\n"
    write_whole(target, text.encode(), 0o600)
    return found.replaced


def git_would_take(path: Path) -> bool:
    """True when the file is in a git work tree and not ignored there, so that the token in it may be committed."""
    git = shutil.which("git")
    if git is None:
        return False
    folder = path.resolve().parent

    def ask(*words: str) -> int:
        done = subprocess.run([git, "-C", str(folder), *words], capture_output=True, timeout=GIT_WITHIN_S)
        return done.returncode

    try:
        return ask("rev-parse", "--is-inside-work-tree") == 0 and ask("check-ignore", "-q", str(path.resolve())) == 1
    except (OSError, subprocess.TimeoutExpired):
        return False
