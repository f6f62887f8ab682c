"""What a pod's supervisor last said of it, for when nothing answers any more: HOME/pods/ID/last_status.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from control.models import PodId
from control.store import Folders, write_whole

EVERY_S = 30.0
"""A poll comes each second; a memory need not."""


class _Kept(msgspec.Struct):
    at: float
    """Unix seconds, by our clock."""
    status: dict[str, Any]


class LastSeen:
    """The memory of one pod. It is a convenience: a disk that is full or a file that is damaged costs it alone."""

    def __init__(self, home: Path, pod_id: PodId) -> None:
        self._folder = Folders(home).folder(pod_id)
        self._written_at: float | None = None

    def see(self, status: dict[str, Any] | None, now: float) -> None:
        """Note a status as it came, without its log lines, at most every EVERY_S. A pod that was removed stays gone."""
        if status is None or (self._written_at is not None and 0.0 <= now - self._written_at < EVERY_S):
            return
        if not self._folder.is_dir():
            return
        self._written_at = now
        try:
            write_whole(self._path, msgspec.json.encode(_Kept(now, {**status, "log": []})), 0o600)
        except OSError:
            return

    def read(self) -> tuple[dict[str, Any], float] | None:
        """The status, and when it was true; None when there is none that can be read."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            return None
        return kept.status, kept.at

    @property
    def _path(self) -> Path:
        return self._folder / "last_status.json"
