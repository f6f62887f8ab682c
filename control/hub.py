"""What a pod's published files are, wherever they are kept: the HubStore protocol, its values and its errors.

`hf://datasets/owner/name[/folder]` and `hf://owner/name[/folder]` are repositories of the Hugging Face Hub
(control.hub_hf), `dir:///absolute/path` is a folder (control.hub_dir). Both keep every version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from control.errors import Refused, Unreachable, UsageError

CONFIG = "pod.toml"
SIGNATURE = "pod.toml.sig"
CODE = "passerelle.pyz.b64"
"""The pod's code, as text: a binary file would go to the Hub's large-file store, whose address is a redirect to another
host that must not be given the token; a text of 100 kB is one GET."""


@dataclass(frozen=True, slots=True)
class Published:
    """The files that were asked for and exist, all of one commit. An empty store has the commit "" or no file."""

    commit: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Version:
    """One commit of a store's history."""

    commit: str
    title: str
    at: float
    """Unix seconds."""
    author: str


class Conflict(Refused):
    """Somebody else published since the commit that this publish was made from; nothing was changed."""


class NoSuchStore(Refused):
    """There is no store of that name, or this token may not see it: the Hub answers both alike."""


class NoSuchVersion(Refused):
    """The store has no such commit (any more)."""


class RateLimited(Unreachable):
    """The Hub wants us to wait. `retry_s`: how long, where it says so."""

    def __init__(self, message: str, remedy: str = "", retry_s: float | None = None) -> None:
        super().__init__(message, remedy)
        self.retry_s = retry_s


class HubStore(Protocol):
    """Errors: Conflict, NoSuchStore, NoSuchVersion, Refused, RateLimited, Unreachable. Use as an async context."""

    url: str

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def read(self, paths: tuple[str, ...], commit: str | None = None) -> Published:
        """Those of `paths` that exist, all as of one commit: the newest, or the one that is named."""
        ...

    async def publish(self, files: Mapping[str, bytes], parent: str, title: str) -> str:
        """Replace `files` in one commit on top of `parent`, in their order where the store has no transactions.

        Raises Conflict when `parent` is not the newest commit. The same content makes no commit: the newest's id.
        """
        ...

    async def history(self, limit: int) -> tuple[Version, ...]:
        """The newest versions first."""
        ...

    async def make(self) -> None:
        """Create the store, private, if it is not there. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class HfAddress:
    """A repository of the Hub and a folder in it ("" is its root)."""

    kind: str
    """ "dataset" or "model"."""
    repo: str
    folder: str = ""

    @property
    def url(self) -> str:
        kind = "datasets/" if self.kind == "dataset" else ""
        return f"hf://{kind}{self.repo}" + (f"/{self.folder}" if self.folder else "")

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name


_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_HF = re.compile(
    rf"hf://(?P<kind>datasets/)?(?P<repo>(?!(?:datasets|spaces|models|buckets)/){_PART}/{_PART})(?:/(?P<folder>{_PART}(?:/{_PART})*))?/?"
)
_DIR = re.compile(r"dir://(?P<path>/.+|[A-Za-z]:[/\\].+)")
FORMS = "hf://datasets/owner/name, hf://owner/name or dir:///absolute/path"


def parse_hf(url: str) -> HfAddress | None:
    """None when the URL is not of the Hub."""
    found = _HF.fullmatch(url)
    if found is None:
        return None
    return HfAddress("dataset" if found["kind"] else "model", found["repo"], found["folder"] or "")


def parse_dir(url: str) -> str | None:
    """The folder's absolute path; None when the URL is not one of a folder."""
    found = _DIR.fullmatch(url)
    return found["path"] if found else None


def below(url: str, name: str) -> str:
    """The store of one pod in a store of several: each has its own folder, since each signs with its own token."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")
    return f"{url.rstrip('/')}/{plain}"


def open_store(url: str, token: str | None, author: str = "operator") -> HubStore:
    """The store of that URL; nothing is contacted yet. Raises UsageError for another kind of URL."""
    if (path := parse_dir(url)) is not None:
        from control.hub_dir import DirStore

        return DirStore(path, author)
    if (address := parse_hf(url)) is not None:
        from control.hub_hf import HfStore

        return HfStore(address, token)
    raise UsageError(f"{url!r} is no place for a pod's configuration", f"give one like {FORMS}")
