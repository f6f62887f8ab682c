"""The only file that looks at this machine's processes: which are a pod's, are they gone. psutil ends here."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from control.local.store import ProcessMark


def spawn(argv: list[str], env: Mapping[str, str], out: Path) -> ProcessMark:
    """Start a process that outlives this one: a session of its own, no input, stdout and stderr into `out`.

    posix_spawn rather than subprocess, whose Popen objects complain when they are dropped before their process ends.
    Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.fspath(out), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    )
    pid = os.posix_spawn(argv[0], argv, dict(env), file_actions=actions, setsid=True)
    return mark(pid) or ProcessMark(pid, 0.0)


def exit_code(process: ProcessMark) -> int | None:
    """Of a child of this process, once it has ended (negative: the signal); None while it runs or is not our child."""
    try:
        pid, status = os.waitpid(process.pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if pid else None


def mark(pid: int) -> ProcessMark | None:
    """The process of that pid as it is now; None when there is none."""
    try:
        return ProcessMark(pid, psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def alive(process: ProcessMark | None) -> bool:
    """The very process that was marked still runs; a zombie does not, and is put away if it is ours."""
    if process is not None:
        exit_code(process)
    found = _find(process)
    try:
        return found is not None and found.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def family(process: ProcessMark | None) -> tuple[ProcessMark, ...]:
    """The process and everything under it."""
    found = _find(process)
    if found is None or process is None:
        return ()
    try:
        children = found.children(recursive=True)
    except psutil.Error:
        children = []
    return (process, *(m for m in (mark(child.pid) for child in children) if m is not None))


def terminate(process: ProcessMark | None) -> None:
    """Ask it to end (SIGTERM). Nothing happens when it is gone."""
    found = _find(process)
    try:
        if found is not None:
            found.terminate()
    except psutil.NoSuchProcess:
        return


def kill(processes: Iterable[ProcessMark]) -> None:
    """End them now (SIGKILL)."""
    for process in processes:
        found = _find(process)
        try:
            if found is not None:
                found.kill()
        except psutil.NoSuchProcess:
            continue


def _find(process: ProcessMark | None) -> psutil.Process | None:
    if process is None:
        return None
    try:
        found = psutil.Process(process.pid)
        return found if abs(found.create_time() - process.created) < 0.05 else None
    except psutil.Error:
        return None


def port_is_free(port: int) -> bool:
    """Nothing listens on 127.0.0.1:`port`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port on 127.0.0.1 that nothing listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
