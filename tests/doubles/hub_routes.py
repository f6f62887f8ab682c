"""The Hub double's API: /api/… as recorded from the real huggingface_hub. Pure but for its holdings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tests.doubles import hub_files
from tests.doubles.hub_repo import Change, Commit, NoSuchEntry, Stale, blob_sha1
from tests.doubles.hub_state import Holdings
from tests.doubles.hub_wire import Answer, Refusal, Request, as_json, error, not_found_page

PAGE = 50
REGULAR_LIMIT = 10_000_000
"""Bytes; the Hub takes no larger file into git."""

Route = Callable[[Holdings, Request, "dict[str, str]"], Answer]


def whoami(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    token = hub.who(request)
    access = {"displayName": "t", "role": token.role, "createdAt": "2026-01-01T00:00:00.000Z"}
    auth = {"type": "access_token", "accessToken": access}
    who = {"type": "user", "id": "u1", "name": token.user, "fullname": token.user, "isPro": False, "orgs": []}
    return as_json({**who, "auth": auth})


def create(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    token, asked = hub.who(request), request.json()
    kind, name = asked.get("type") or "model", f"{asked.get('organization') or token.user}/{asked['name']}"
    url = f"{base(request)}/{prefix(kind)}{name}"
    if token.role != "write":
        return error(403, "Forbidden: you must use a write token")
    if name.split("/")[0] != token.user:
        return error(403, f"You don't have the rights to create a {kind} under the namespace {name.split('/')[0]!r}")
    if (kind, name) in hub.repos:
        text = f"You already created this {kind} repo: {name}"
        return as_json({"error": text, "url": url}, 409, {"X-Error-Message": "You already created this"})
    hub.add_repo(kind, name, asked.get("visibility") == "private" or bool(asked.get("private")))
    return as_json({"url": url, "name": name, "id": "r1"})


def preupload(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    repo = hub.reachable(request, at["kind"], at["name"], write=True)
    files = []
    for file in request.json()["files"]:
        large = file["size"] > REGULAR_LIMIT or b"\0" in base64.b64decode(file["sample"])
        row = {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
        if not large and file["path"] in repo.head.files:
            row["oid"] = blob_sha1(repo.head.files[file["path"]])
        files.append(row)
    return as_json({"files": files})


def commit(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    repo = hub.reachable(request, at["kind"], at["name"], write=True)
    if at["rev"] != "main":
        return error(404, f"Invalid rev id: {at['rev']}", "RevisionNotFound")
    try:
        made = hub.commit(repo, _change(hub, request.body), hub.who(request).user)
    except Stale:
        return error(412, "A commit has happened since. Please refresh and try again.")
    except NoSuchEntry as missing:
        return error(404, f"A file with this name doesn't exist: {missing}", "EntryNotFound")
    except (ValueError, KeyError, TypeError) as wrong:
        return error(400, f"Invalid commit payload: {wrong!r}")
    url = f"{base(request)}/{prefix(repo.kind)}{repo.name}/commit/{made.oid}"
    return as_json({"success": True, "commitOid": made.oid, "commitUrl": url, "hookOutput": ""})


def _change(hub: Holdings, body: bytes) -> Change:
    change = Change()
    for line in body.decode().splitlines():
        if not line.strip():
            continue
        item = json.loads(line)
        value = item["value"]
        match item["key"]:
            case "header":
                change.title, change.message = value["summary"], value.get("description", "")
                change.parent = value.get("parentCommit")
            case "file":
                encoded = value.get("encoding") == "base64"
                content = base64.b64decode(value["content"], validate=True) if encoded else value["content"].encode()
                change.files[value["path"]] = content
            case "lfsFile":
                change.files[value["path"]] = hub.large[value["oid"]]
                change.large.add(value["path"])
            case "deletedFile":
                change.files[value["path"]] = None
            case "deletedFolder":
                change.files[value["path"].rstrip("/") + "/"] = None
            case other:
                raise ValueError(f"unknown key {other!r}")
    if not change.title:
        raise ValueError("no header with a summary")
    return change


def info(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    repo = hub.reachable(request, at["kind"], at["name"])
    found = hub.read(repo, at.get("rev") or "main")
    short = {"_id": "r1", "id": repo.name, "sha": found.oid}
    if "expand" in request.query or "expand[]" in request.query:
        return as_json(short)
    siblings = [{"rfilename": path} for path in sorted(found.files)]
    flags = {"author": repo.name.split("/")[0], "private": repo.private, "disabled": False, "gated": False}
    dates = {"lastModified": found.date, "createdAt": "2026-01-01T00:00:00.000Z"}
    return as_json({**short, **flags, **dates, "tags": [], "downloads": 0, "likes": 0, "siblings": siblings})


def refs(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    repo = hub.reachable(request, at["kind"], at["name"])
    main = {"name": "main", "ref": "refs/heads/main", "targetCommit": hub.read(repo, "main").oid}
    return as_json({"branches": [main], "tags": [], "converts": []})


def commits(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    repo = hub.reachable(request, at["kind"], at["name"])
    newest = hub.read(repo, at["rev"])
    known = repo.commits[: repo.commits.index(newest) + 1][::-1]
    page = int(request.query.get("p", ["0"])[0])
    rows = [_commit_row(one) for one in known[page * PAGE : (page + 1) * PAGE]]
    more = (page + 1) * PAGE < len(known)
    link = {"Link": f'<{base(request)}{request.raw_path}?p={page + 1}>; rel="next"'} if more else {}
    return as_json(rows, headers=link)


def _commit_row(one: Commit) -> dict[str, Any]:
    authors = [{"user": one.author}]
    return {"id": one.oid, "title": one.title, "message": one.message, "authors": authors, "date": one.date}


def tree(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    repo = hub.reachable(request, at["kind"], at["name"])
    files = hub.read(repo, at["rev"]).files
    rows = [{"type": "file", "oid": blob_sha1(files[p]), "size": len(files[p]), "path": p} for p in sorted(files)]
    return as_json(rows)


def squash(hub: Holdings, request: Request, at: dict[str, str]) -> Answer:
    repo = hub.reachable(request, at["kind"], at["name"], write=True)
    repo.squash(request.json().get("message", "squash"), hub.who(request).user)
    return Answer(200, b"OK", {"Content-Type": "text/plain; charset=utf-8"})


def prefix(kind: str) -> str:
    return "" if kind == "model" else f"{kind}s/"


def base(request: Request) -> str:
    return f"http://{request.headers.get('host', '127.0.0.1')}"


_REPO = r"/api/(?P<kind>model|dataset|space)s/(?P<name>[^/]+/[^/]+)"
_FILE = r"(?P<prefix>datasets/|spaces/|models/)?(?P<name>[^/]+/[^/]+)"
ROUTES: tuple[tuple[str, re.Pattern[str], Route], ...] = tuple(
    (method, re.compile(pattern), route)
    for method, pattern, route in (
        ("GET", r"/api/whoami-v2", whoami),
        ("POST", r"/api/repos/create", create),
        ("POST", _REPO + r"/preupload/(?P<rev>[^/]+)", preupload),
        ("POST", _REPO + r"/commit/(?P<rev>[^/]+)", commit),
        ("POST", _REPO + r"/super-squash/(?P<rev>[^/]+)", squash),
        ("GET", _REPO + r"/refs", refs),
        ("GET", _REPO + r"/commits/(?P<rev>[^/]+)", commits),
        ("GET", _REPO + r"/tree/(?P<rev>[^/]+)", tree),
        ("GET", _REPO + r"(/revision/(?P<rev>[^/]+))?", info),
        ("GET", rf"/{_FILE}/resolve/(?P<rev>[^/]+)/(?P<path>.+)", hub_files.resolve),
        ("GET", rf"/api/resolve-cache/{_FILE}/(?P<rev>[^/]+)/(?P<path>.+)", hub_files.cached),
        ("POST", rf"/{_FILE}\.git/info/lfs/objects/batch", hub_files.batch),
        ("PUT", r"/_large/(?P<oid>[0-9a-f]{64})", hub_files.put_large),
        ("GET", r"/_large/(?P<oid>[0-9a-f]{64})", hub_files.get_large),
    )
)


def answer(hub: Holdings, request: Request) -> Answer:
    """What the Hub would say. HEAD is answered like GET; its body is left out by the server."""
    method = "GET" if request.method == "HEAD" else request.method
    for wanted, pattern, route in ROUTES:
        if wanted == method and (found := pattern.fullmatch(request.raw_path)):
            at = {key: unquote(value) for key, value in found.groupdict().items() if value is not None}
            at.setdefault("kind", at.get("prefix", "models/").removesuffix("s/"))
            try:
                return route(hub, request, at)
            except Refusal as refusal:
                return refusal.answer
            except (ValueError, KeyError, TypeError) as wrong:
                return error(400, f"Invalid request: {wrong!r}")
    return not_found_page()
