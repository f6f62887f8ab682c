"""A HubStore in a folder, with a history like the Hub's: the files themselves, and every version under .history/.

DIR/pod.toml …                the newest version: what a pod watches; each file is replaced whole, by a rename
DIR/.history/000007.json      version 7: title, time, author, and each file's git-blob sha1
DIR/.history/blobs/SHA1       contents, each once

A lock lets one publisher in at a time, so that of two who read the same commit one gets a Conflict. What somebody
changed by hand, or a publisher that died half-way left behind, is a version of its own before the next publish: nothing
is ever lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import filelock
import msgspec

from control.errors import Refused
from control.hub import Conflict, NoSuchStore, NoSuchVersion, Published, Version
from control.store import write_whole

LOCK_WITHIN_S = 10.0
PUBLISH_AGAIN = "look at what is there (passerelle config history) and publish again"


class _Record(msgspec.Struct):
    """.history/N.json"""

    title: str
    at: float
    author: str
    files: dict[str, str]


class DirStore:
    """See control.hub.HubStore. A commit is "N-DIGEST": number and contents, so an edit by hand is another commit."""

    def __init__(self, path: str, author: str = "operator") -> None:
        self.url = f"dir://{path}"
        self._root, self._author = Path(path), author
        self._history = self._root / ".history"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def make(self) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"cannot make the folder {self._root}: {error.strerror}") from error

    async def read(self, paths: tuple[str, ...], commit: str | None = None) -> Published:
        return await asyncio.to_thread(self._read, paths, commit)

    async def publish(self, files: Mapping[str, bytes], parent: str, title: str) -> str:
        return await asyncio.to_thread(self._publish, files, parent, title)

    async def history(self, limit: int) -> tuple[Version, ...]:
        return await asyncio.to_thread(self._versions, limit)

    def _read(self, paths: tuple[str, ...], commit: str | None) -> Published:
        if commit is None:
            present = self._present()
            return Published(self._commit(present), {path: present[path] for path in paths if path in present})
        record = self._record(self._number(commit))
        return Published(commit, {path: self._blob(record.files[path]) for path in paths if path in record.files})

    def _publish(self, files: Mapping[str, bytes], parent: str, title: str) -> str:
        with self._locked():
            present = self._present()
            if self._commit(present) != parent:
                raise Conflict(f"{self.url} has changed since it was read", PUBLISH_AGAIN)
            if all(present.get(path) == data for path, data in files.items()):
                return parent
            self._keep_what_is_there(present)
            for path, data in files.items():
                self._put(self._root / path, data)
            self._add({**present, **files}, title, self._author)
            return self._commit(self._present())

    def _versions(self, limit: int) -> tuple[Version, ...]:
        with self._locked():
            self._keep_what_is_there(self._present())
        found = []
        for number in range(self._newest(), max(0, self._newest() - limit), -1):
            record = self._record(number)
            found.append(Version(f"{number}-{_digest(record.files)}", record.title, record.at, record.author))
        return tuple(found)

    def _keep_what_is_there(self, present: Mapping[str, bytes]) -> None:
        hashes = {path: _sha1(data) for path, data in present.items()}
        newest = self._newest()
        if hashes and (newest == 0 or self._record(newest).files != hashes):
            self._add(present, "changed by hand" if newest else "as it was at the start", "unknown")

    def _add(self, files: Mapping[str, bytes], title: str, author: str) -> None:
        hashes = {path: _sha1(data) for path, data in files.items()}
        for path, name in hashes.items():
            if not (blob := self._history / "blobs" / name).exists():
                self._put(blob, files[path])
        record = msgspec.json.encode(_Record(title, time.time(), author, hashes))
        self._put(self._history / f"{self._newest() + 1:06d}.json", record)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._present()
        try:
            self._history.mkdir(exist_ok=True)
            with filelock.FileLock(self._history / "lock", timeout=LOCK_WITHIN_S):
                yield
        except filelock.Timeout as error:
            raise Refused(f"another publish to {self.url} has not ended within {LOCK_WITHIN_S:.0f} s") from error
        except OSError as error:
            raise Refused(f"cannot write {self._history}: {error.strerror}") from error

    def _present(self) -> dict[str, bytes]:
        """Every file of the newest version. Hidden files and folders (the mirrored logs) are not part of it."""
        try:
            entries = [path for path in self._root.iterdir() if not path.name.startswith(".") and path.is_file()]
            return {path.name: path.read_bytes() for path in sorted(entries)}
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoSuchStore(f"there is no folder {self._root}", "make it, or name another") from error
        except OSError as error:
            raise Refused(f"cannot read {self._root}: {error.strerror}") from error

    def _commit(self, present: Mapping[str, bytes]) -> str:
        return f"{self._newest()}-{_digest({path: _sha1(data) for path, data in present.items()})}"

    def _newest(self) -> int:
        return max((int(path.stem) for path in self._history.glob("*.json") if path.stem.isdigit()), default=0)

    def _number(self, commit: str) -> int:
        number, _, digest = commit.partition("-")
        known = number.isdigit() and 0 < int(number) <= self._newest()
        if known and digest in ("", _digest(self._record(int(number)).files)):
            return int(number)
        raise NoSuchVersion(f"{self.url} has no version {commit!r}", "see them: passerelle config history")

    def _record(self, number: int) -> _Record:
        path = self._history / f"{number:06d}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError) as error:
            raise NoSuchVersion(f"version {number} of {self.url} cannot be read: {error}") from error

    def _blob(self, name: str) -> bytes:
        try:
            return (self._history / "blobs" / name).read_bytes()
        except OSError as error:
            raise NoSuchVersion(f"a file of that version of {self.url} is gone: {error.strerror}") from error

    def _put(self, path: Path, data: bytes) -> None:
        try:
            write_whole(path, data, 0o644)
        except OSError as error:
            raise Refused(f"cannot write {path}: {error.strerror}") from error


def _sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _digest(hashes: Mapping[str, str]) -> str:
    return hashlib.sha1(repr(sorted(hashes.items())).encode()).hexdigest()[:10]
