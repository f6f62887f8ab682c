"""The Hub double's file addresses: /resolve/ with ETag, commit, ranges and conditions, and the store of large files."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

from tests.doubles.hub_repo import Commit, Repo, blob_sha1
from tests.doubles.hub_state import Holdings
from tests.doubles.hub_wire import Answer, Refusal, Request, as_json, error


def resolve(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    """200 with the bytes; 307 to the cache when public; 302 to the large files' store; 404 with the kind."""
    repo, commit, data = _entry(hub, request, at)
    if at["path"] in commit.large:
        return _to_large(request, commit, data)
    if repo.private:
        return _bytes(request, commit, data)
    etag = f'"{blob_sha1(data)}"'
    kind = f"{repo.kind}s"
    location = f"/api/resolve-cache/{kind}/{repo.name}/{commit.oid}/{quote(at['path'])}?etag={quote(etag)}"
    linked = {"Location": location, "X-Linked-Size": str(len(data)), "X-Linked-Etag": etag}
    return Answer(307, b"", {**_headers(commit, data), **linked})


def cached(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    """Where a public file's 307 leads: the bytes of one commit, for ever."""
    _, commit, data = _entry(hub, request, at)
    return _bytes(request, commit, data)


def _entry(hub: Holdings, request: Request, at: dict[str, str]) -> tuple[Repo, Commit, bytes]:
    repo = hub.reachable(request, at["kind"], at["name"])
    commit = hub.read(repo, at["rev"])
    data = commit.files.get(at["path"])
    if data is None:
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "X-Error-Code": "EntryNotFound",
            "X-Error-Message": "Entry not found",
            "X-Repo-Commit": commit.oid,
        }
        raise Refusal(Answer(404, b"Entry not found", headers))
    return repo, commit, data


def _headers(commit: Commit, data: bytes) -> dict[str, str]:
    return {
        "Content-Type": "text/plain; charset=utf-8",
        "ETag": f'"{blob_sha1(data)}"',
        "X-Repo-Commit": commit.oid,
        "Accept-Ranges": "bytes",
        "Content-Disposition": "inline; filename*=UTF-8''x; filename=\"x\";",
    }


def _bytes(request: Request, commit: Commit, data: bytes) -> Answer:
    headers = _headers(commit, data)
    if headers["ETag"] in request.headers.get("if-none-match", "").replace(" ", "").split(","):
        return Answer(304, b"", headers)
    ranged = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if ranged is None:
        return Answer(200, data, headers)
    first, last = int(ranged[1]), min(int(ranged[2] or len(data)), len(data) - 1)
    if first >= len(data):
        return Answer(416, b"", {**headers, "Content-Range": f"bytes */{len(data)}"})
    return Answer(206, data[first : last + 1], {**headers, "Content-Range": f"bytes {first}-{last}/{len(data)}"})


def _to_large(request: Request, commit: Commit, data: bytes) -> Answer:
    oid = hashlib.sha256(data).hexdigest()
    location = _store(request, oid)
    linked = {"Location": location, "X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{oid}"'}
    return Answer(302, b"", {**_headers(commit, data), **linked})


def _store(request: Request, oid: str) -> str:
    """A signed address on another host, as the CDN is one: clients must leave their token behind."""
    host = request.headers.get("host", "").replace("127.0.0.1", "localhost")
    return f"http://{host}/_large/{oid}?Signature=double"


def batch(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    """git-lfs's batch API, basic transfer. An object that is there already has no action."""
    hub.reachable(request, at["kind"], at["name"], write=True)
    objects = []
    for wanted in request.json()["objects"]:
        row = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] not in hub.large:
            row["actions"] = {"upload": {"href": _store(request, wanted["oid"]), "header": {}}}
        objects.append(row)
    return as_json({"transfer": "basic", "objects": objects}, headers={"Content-Type": "application/vnd.git-lfs+json"})


def put_large(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    if hashlib.sha256(request.body).hexdigest() != at["oid"]:
        return error(400, "the body is not the object that was announced")
    hub.large[at["oid"]] = request.body
    return Answer(200)


def get_large(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    """A signed address, as of S3, which refuses a request that has a second kind of credentials."""
    if request.token is not None:
        return error(400, "Only one auth mechanism allowed")
    data = hub.large.get(at["oid"])
    return error(404, "no such object") if data is None else Answer(200, data, {"ETag": f'"{at["oid"]}"'})
