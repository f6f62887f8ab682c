"""How long the phases of earlier starts took, for the ETA of the next: HOME/phases.json, per provider."""

from __future__ import annotations

from pathlib import Path

import msgspec

from control.store import write_whole

KEPT = 8


class Durations:
    """Phase -> seconds, oldest first. What cannot be read is forgotten: it is a convenience."""

    def __init__(self, home: Path, provider: str) -> None:
        self._path = home / "phases.json"
        self._provider = provider

    def known(self) -> dict[str, tuple[float, ...]]:
        return self._load().get(self._provider, {})

    def learn(self, phase: str, seconds: float) -> None:
        everything = self._load()
        mine = everything.setdefault(self._provider, {})
        mine[phase] = (*mine.get(phase, ()), seconds)[-KEPT:]
        write_whole(self._path, msgspec.json.encode(everything), 0o644)

    def _load(self) -> dict[str, dict[str, tuple[float, ...]]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, tuple[float, ...]]])
        except (OSError, msgspec.DecodeError):
            return {}
