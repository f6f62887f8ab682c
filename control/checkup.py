"""Finds out what `doctor` judges: this machine, its files, and what RunPod and the Hub say of our keys."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from control import claude_code, doctor, settings, ssh_keys
from control.doctor import Check, Machine
from control.errors import PasserelleError, Unreachable
from control.hub import open_store, parse_hf
from control.hub_account import holder, repo
from control.keys import HUGGING_FACE, RUNPOD, Keys
from control.settings import Settings
from control.store import home


async def everything(environ: Mapping[str, str] = os.environ) -> list[Check]:
    """Every check, in the order in which they are told. Nothing is changed anywhere."""
    keys = Keys(environ=environ)
    mine, own = _settings()
    here = [*doctor.machine(_machine(environ)), folder(home()), own]
    async with asyncio.TaskGroup() as group:
        rented = group.create_task(_runpod(keys))
        hub = group.create_task(_hub(keys, environ))
        stores = [
            group.create_task(_store(name, url, keys, environ))
            for name, url in (("config store", mine.hub), ("log mirror", mine.log_mirror))
        ]
        key = group.create_task(_ssh_key(mine))
        claude = group.create_task(asyncio.to_thread(claude_code.find))
    return [
        *here,
        rented.result(),
        *hub.result(),
        *(task.result() for task in stores),
        key.result(),
        doctor.claude_code(claude.result()),
        doctor.claude_environment(environ),
    ]


def folder(path: Path) -> Check:
    """The operator's own folder: there or makeable, writable, and its secrets for its owner alone."""
    name = "own folder"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return doctor.fail(name, f"{path}: {error.strerror}", "set PASSERELLE_HOME to a folder that can be written")
    if not os.access(path, os.W_OK | os.X_OK):
        return doctor.fail(name, f"{path} cannot be written", "set PASSERELLE_HOME to a folder that can be")
    secrets = path / "secrets.json"
    if sys.platform != "win32" and secrets.exists() and stat.S_IMODE(secrets.stat().st_mode) & 0o077:
        return doctor.fail(name, f"others can read {secrets}", f"chmod 600 {secrets}")
    return doctor.ok(name, str(path))


def _settings() -> tuple[Settings, Check]:
    try:
        return settings.load(), doctor.ok("settings", str(settings.path()))
    except PasserelleError as error:
        return Settings(), doctor.fail("settings", error.message, error.remedy)


def _machine(environ: Mapping[str, str]) -> Machine:
    size = shutil.get_terminal_size()
    return Machine(
        python=sys.version_info[:3],
        system=sys.platform,
        is_terminal=sys.stdout.isatty(),
        term=environ.get("TERM", ""),
        encoding=sys.stdout.encoding or "?",
        size=(size.columns, size.lines),
        true_colour=environ.get("COLORTERM") in ("truecolor", "24bit") or "WT_SESSION" in environ,
    )


async def _runpod(keys: Keys) -> Check:
    from control.providers import open_rented

    where = await asyncio.to_thread(keys.where, RUNPOD)
    if (missing := doctor.key_found(RUNPOD, where)) is not None:
        return missing
    try:
        pods = await open_rented().client.pods()
    except Unreachable as error:
        return doctor.warn(RUNPOD, f"from the {where}, not tried: {error.message}", "look again when online")
    except PasserelleError as error:
        return doctor.fail(RUNPOD, f"from the {where}: {error.message}", error.remedy or "make another key at RunPod")
    return doctor.ok(RUNPOD, f"from the {where}: it may list pods ({len(pods)}); to create one was not tried")


async def _hub(keys: Keys, environ: Mapping[str, str]) -> list[Check]:
    """The token, and the clock by the same answer."""
    where = await asyncio.to_thread(keys.where, HUGGING_FACE)
    if (missing := doctor.key_found(HUGGING_FACE, where)) is not None:
        return [missing, doctor.clock(None)]
    try:
        held = await holder(keys.get(HUGGING_FACE) or "", environ)
    except Unreachable as error:
        unknown = doctor.warn(HUGGING_FACE, f"from the {where}, not tried: {error.message}", "look again when online")
        return [unknown, doctor.clock(None)]
    except PasserelleError as error:
        return [doctor.fail(HUGGING_FACE, f"from the {where}: {error.message}", error.remedy), doctor.clock(None)]
    return [doctor.token(HUGGING_FACE, str(where), held), doctor.clock(held.ahead_s)]


async def _store(name: str, url: str | None, keys: Keys, environ: Mapping[str, str]) -> Check:
    address = parse_hf(url) if url else None
    try:
        if url is None:
            return doctor.store(name, None, None)
        if address is not None:
            return doctor.store(name, url, await repo(address, keys.get(HUGGING_FACE), environ))
        async with open_store(url, None) as opened:
            await opened.history(1)
        return doctor.store(name, url, None)
    except Unreachable as error:
        return doctor.warn(name, f"{url} was not looked at: {error.message}", "look again when online")
    except PasserelleError as error:
        return doctor.fail(name, error.message, error.remedy or "passerelle init")


async def _ssh_key(mine: Settings) -> Check:
    identity = mine.identity()
    fault = ssh_keys.key_fault(identity.key) if identity.key else None
    keys = await ssh_keys.agent_keys(identity.agent) if identity.agent else None
    return doctor.ssh_key(mine.ssh_key, fault, identity.agent, keys)
