"""One repository of the Hub double: commits, trees and the hashes that git would give them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field


class Stale(Exception):
    """The parent that a commit names is not the head: HTTP 412 of the Hub."""


class NoSuchEntry(Exception):
    """A deletion names a path that is not there."""


def blob_sha1(data: bytes) -> str:
    """git's object name of a file's content: the ETag of a regular file on the Hub."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass(frozen=True, slots=True)
class Commit:
    oid: str
    title: str
    message: str
    author: str
    number: int
    """Of the commit in its repository; its date on the wire is made from it, so that no clock is read."""
    files: Mapping[str, bytes]
    large: frozenset[str] = frozenset()
    """Paths that are kept as LFS objects rather than in git."""

    @property
    def date(self) -> str:
        return f"2026-11-01T{self.number // 3600:02d}:{self.number // 60 % 60:02d}:{self.number % 60:02d}.000Z"


@dataclass(slots=True)
class Change:
    """What one commit request asks for; None deletes a path, or all below it when it ends with a slash."""

    files: dict[str, bytes | None] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    title: str = ""
    message: str = ""
    parent: str | None = None


class Repo:
    """Branch `main` of one repository. It begins with the commit that the Hub makes by itself."""

    def __init__(self, kind: str, name: str, private: bool) -> None:
        self.kind, self.name, self.private = kind, name, private
        self.commits: list[Commit] = []
        self._made = 0
        first = Change({".gitattributes": b"*.bin filter=lfs\n"}, title="initial commit")
        self.commit(first, author=name.split("/")[0])

    @property
    def head(self) -> Commit:
        return self.commits[-1]

    def commit(self, change: Change, author: str) -> Commit:
        """Raises Stale or NoSuchEntry, and then nothing has changed."""
        if change.parent is not None and not self.head.oid.startswith(change.parent):
            raise Stale
        files = dict(self.commits[-1].files) if self.commits else {}
        large = set(self.commits[-1].large) if self.commits else set()
        for path, data in change.files.items():
            gone = [old for old in files if old == path or (path.endswith("/") and old.startswith(path))]
            if data is not None:
                files[path] = data
                large -= {path}
            elif not gone:
                raise NoSuchEntry(path)
            else:
                files = {old: kept for old, kept in files.items() if old not in gone}
        return self._add(change.title, change.message, author, files, frozenset(large & files.keys()) | change.large)

    def squash(self, title: str, author: str) -> Commit:
        """One commit that has everything; every older one is gone, as after super_squash_history."""
        head = self.head
        self.commits.clear()
        return self._add(title, "", author, dict(head.files), head.large)

    def at(self, revision: str) -> Commit | None:
        """The commit of a branch name or a full id; None when the Hub would say RevisionNotFound."""
        if revision in ("main", "refs/heads/main"):
            return self.head
        return next((commit for commit in self.commits if commit.oid == revision), None)

    def _add(self, title: str, message: str, author: str, files: dict[str, bytes], large: frozenset[str]) -> Commit:
        self._made += 1
        tree = "".join(f"{path} {blob_sha1(data)}\n" for path, data in sorted(files.items()))
        parent = self.commits[-1].oid if self.commits else ""
        identity = f"{self.kind} {self.name} {self._made}\n{parent}\n{title}\n{message}\n{tree}"
        oid = hashlib.sha1(identity.encode()).hexdigest()
        self.commits.append(Commit(oid, title, message, author, self._made, files, large))
        return self.commits[-1]
