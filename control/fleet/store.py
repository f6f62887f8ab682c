"""The files of the fleets: HOME/fleets/NAME.

fleet.json     its replicas, and where its front listens
tokens.json    the two tokens of its front's bridge (0600)
front.json     the front's process, where its tunnel listens, and the secret between its parts (0600)
front.out, router.log, bridge.log
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from control.errors import Refused, UsageError
from control.fleet.models import Fleet
from control.local.store import ProcessMark
from control.models import Tokens
from control.store import write_whole

T = TypeVar("T")


class NoSuchFleet(Refused):
    """There is no fleet of that name, or none at all."""


@dataclass(frozen=True, slots=True)
class Front:
    """front.json. `repr` hides the secret."""

    process: ProcessMark
    port: int
    """The tunnel's, on loopback."""
    secret: str

    def __repr__(self) -> str:
        return f"Front({self.process.pid}, port {self.port})"


class Fleets:
    """Every fleet of this operator."""

    def __init__(self, home: Path) -> None:
        self._root = home / "fleets"

    def folder(self, name: str) -> Path:
        """Raises UsageError for a name that is not a plain word."""
        if not name or any(not (sign.isascii() and (sign.isalnum() or sign == "-")) for sign in name):
            raise UsageError(f"{name!r} is no name for a fleet", "letters, digits and dashes, such as: night")
        return self._root / name

    def names(self) -> tuple[str, ...]:
        if not self._root.is_dir():
            return ()
        return tuple(path.name for path in sorted(self._root.iterdir()) if (path / "fleet.json").is_file())

    def load(self, name: str) -> Fleet:
        return self._read(name, "fleet.json", Fleet)

    def save(self, fleet: Fleet) -> None:
        self._write(fleet.name, "fleet.json", fleet, 0o644)

    def tokens(self, name: str) -> Tokens:
        return self._read(name, "tokens.json", Tokens)

    def save_tokens(self, name: str, tokens: Tokens) -> None:
        self._write(name, "tokens.json", tokens, 0o600)

    def front(self, name: str) -> Front | None:
        """None when it was never started, or ended in order."""
        try:
            return self._read(name, "front.json", Front)
        except NoSuchFleet:
            return None

    def save_front(self, name: str, front: Front) -> None:
        self._write(name, "front.json", front, 0o600)

    def forget_front(self, name: str) -> None:
        (self.folder(name) / "front.json").unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder(name))

    def _read(self, name: str, file: str, kind: type[T]) -> T:
        path = self.folder(name) / file
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError as error:
            raise NoSuchFleet(f"there is no fleet {name}", "see them: passerelle fleet list") from error
        except (OSError, msgspec.DecodeError) as error:
            raise Refused(f"{path}: {error}", f"remove it: passerelle fleet terminate {name}") from error

    def _write(self, name: str, file: str, value: object, mode: int) -> None:
        write_whole(self.folder(name) / file, msgspec.json.format(msgspec.json.encode(value)), mode)
