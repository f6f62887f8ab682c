"""The rules of speaking with a Hub or a folder: addresses, when to ask, when to commit, and the bytes of it. Pure."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from bootstrap.errors import Problem, Usage

POLL_S = 5.0
TAIL = 200_000  # bytes of the log that are mirrored
# Commits are counted per account, not per pod, and 128 an hour was the lowest quota seen. So a pod has 42 in its first
# hour and 12 in each later one; what the Hub refuses all the same is obeyed.
CADENCE = ((12, 0.0), (36, 60.0), (2**63, 300.0))  # up to so many commits, so many seconds between them at least
_URL = re.compile(r"hf://(?:(datasets|spaces)/)?((?!(?:datasets|spaces)/)[\w.-]+/[\w.-]+)(?:/(\S*?))?/?$")
_WINDOW = re.compile(r";\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Store:
    """A place for files. `kind` is None for a folder, whose `name` is its path."""

    kind: str | None
    name: str
    path: str = ""

    def file(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


def parse(url: str) -> Store:
    """`hf://datasets/owner/name[/path]`, hf://owner/name[/path] of a model, or dir:///path. Errors: Usage."""
    if url.startswith("dir:///"):
        return Store(None, url.removeprefix("dir://").rstrip("/"))
    if found := _URL.match(url):
        return Store(found[1] or "models", found[2], found[3] or "")
    raise Usage(f"{url!r} is neither hf://datasets/OWNER/NAME[/PATH] nor dir:///ABSOLUTE/PATH")


class File(NamedTuple):
    body: bytes
    etag: str
    commit: str | None


def resolve_url(endpoint: str, store: Store, revision: str, name: str) -> str:
    prefix = "" if store.kind == "models" else f"{store.kind}/"
    return f"{endpoint}/{prefix}{store.name}/resolve/{revision}/{store.file(name)}"


def commit_url(endpoint: str, store: Store) -> str:
    return f"{endpoint}/api/{store.kind}/{store.name}/commit/main"


def commit_body(path: str, content: bytes, summary: str) -> bytes:
    """NDJSON, as huggingface_hub 2.4 sends it; a small text file needs no preupload."""
    file = {"content": base64.b64encode(content).decode(), "path": path, "encoding": "base64"}
    header = {"key": "header", "value": {"summary": summary, "description": ""}}
    return b"".join(json.dumps(line).encode() + b"\n" for line in (header, {"key": "file", "value": file}))


def blob_sha1(body: bytes) -> str:
    """Git's name of a file, which is the Hub's ETag of it."""
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


class Refused(Problem):
    """What was asked for did not happen; `status` 0: no answer came."""

    def __init__(self, text: str, status: int = 0, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers or {}

    def retry_s(self, failures: int) -> float:
        """Seconds until the next try: what the Hub says, else doubling from the poll's own up to 5 min."""
        limit = self.headers.get("RateLimit", "")
        if said := re.match(r"\d+$", self.headers.get("Retry-After", "")) or _WINDOW.search(limit):
            return float(said[said.lastindex or 0])
        if self.status == 404:
            return POLL_S
        if self.status == 429:
            about = re.search(r"in about (\d+) (hour|minute)", str(self))
            return float(about[1]) * (3600.0 if about[2] == "hour" else 60.0) if about else 900.0
        return min(300.0, POLL_S * 2.0 ** min(failures, 10))


@dataclass(frozen=True, slots=True)
class Pace:
    """When the log may be committed; kept on disk, so that a pod that restarts does not begin anew. Unix times."""

    commits: int = 0
    next_at: float = 0.0
    barred_until: float = 0.0  # the Hub has refused: not even a last word goes before
    sent: str = ""  # blob_sha1 of what is there

    def allows(self, blob: str, now: float, *, urgent: bool) -> bool:
        return blob != self.sent and now >= (self.barred_until if urgent else max(self.next_at, self.barred_until))

    def committed(self, blob: str, now: float, every_s: float) -> "Pace":
        count = self.commits + 1
        wait_s = next(wait_s for most, wait_s in CADENCE if count < most)
        return Pace(count, now + max(every_s, wait_s), 0.0, blob)

    def barred(self, until: float) -> "Pace":
        return replace(self, barred_until=until)
