"""The only file that looks at this machine's processes: which are a pod's, are they gone. psutil ends here."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import psutil

from control.local.store import ProcessMark


def mark(pid: int) -> ProcessMark | None:
    """The process of that pid as it is now; None when there is none."""
    try:
        return ProcessMark(pid, psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def alive(process: ProcessMark | None) -> bool:
    """The very process that was marked still runs; a zombie does not."""
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
