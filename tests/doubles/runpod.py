"""A RunPod on loopback: REST v2, and of GraphQL what RunPod's own library is asked for.

Every answer that is meant to be REST v2's is held against RunPod's OpenAPI file; what does not fit is kept in
`violations`, which a test asserts to be empty. The faults that come from in front of RunPod (Cloudflare, a gateway)
are not RunPod's words and are not held against it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from control.clock import Clock
from tests.doubles import openapi
from tests.doubles import runpod_answers as answers
from tests.doubles.runpod_cloud import Cloud, Lost, Trouble, iso
from tests.doubles.runpod_faults import HOUR

KEY = "rpa_planted_key_of_the_double_0123456789"
BUCKETS = {"hour": HOUR, "day": 24 * HOUR}
POLICY = '"minute";q=60;w=60, "hour";q=3000;w=3600'
TITLES = {400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found"}
TITLES |= {409: "Conflict", 410: "Gone", 422: "Unprocessable Entity", 429: "Too Many Requests"}
PROBLEM = "application/problem+json"


@dataclass
class Seen:
    """One request, as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    def part(self, number: int) -> str:
        return self.path.split("/")[number]


@dataclass
class Reply:
    status: int
    body: bytes = b""
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    judged: bool = True
    events: list[bytes] | None = None


def reply_json(status: int, value: object) -> Reply:
    return Reply(status, json.dumps(value).encode())


class RunPodDouble:
    """Use as a context manager. `cloud` is its state; `seen` what it was asked."""

    def __init__(self, clock: Clock) -> None:
        self.cloud = Cloud(clock)
        self.seen: list[Seen] = []
        self.violations: list[str] = []
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, method: str, path: str) -> list[Seen]:
        return [seen for seen in self.seen if (seen.method, seen.path) == (method, path)]

    def answer(self, seen: Seen) -> Reply:
        """Raises Lost."""
        with self.lock:
            self.seen.append(seen)
            reply = self._front(seen) or self._v2_or_graphql(seen)
            if reply.judged:
                self._judge(seen, reply)
            return reply

    def _front(self, seen: Seen) -> Reply | None:
        """What stands before RunPod: Cloudflare's bot rule, a gateway."""
        agent = seen.headers.get("user-agent", "")
        if not agent or agent.startswith("Python-urllib"):
            return Reply(403, b"error code: 1010", "text/plain", judged=False)
        if self.cloud.faults.take("gateway"):
            page = b"<html><head><title>502 Bad Gateway</title></head><body>bad gateway</body></html>"
            return Reply(502, page, "text/html", judged=False)
        return None

    def _v2_or_graphql(self, seen: Seen) -> Reply:
        if seen.path == "/graphql":
            return self._graphql(seen)
        if self.cloud.faults.retired:
            return _problem(Trouble(410, "this version of the API was retired"))
        if seen.headers.get("authorization") != f"Bearer {KEY}":
            return _problem(Trouble(401, "missing bearer token"))
        if self.cloud.faults.take("limited"):
            return self._limited()
        try:
            reply = self._route(seen)
        except Trouble as trouble:
            reply = _problem(trouble)
        reply.headers |= {"RateLimit": '"minute";r=58;t=31, "hour";r=2800;t=1812', "RateLimit-Policy": POLICY}
        return reply

    def _limited(self) -> Reply:
        reply = _problem(Trouble(429, "rate limit exceeded for the minute window"))
        reply.headers = {"RateLimit": '"minute";r=0;t=12, "hour";r=2800;t=1812', "RateLimit-Policy": POLICY}
        if self.cloud.faults.retry_after is not None:
            reply.headers["Retry-After"] = str(self.cloud.faults.retry_after)
        return reply

    def _route(self, seen: Seen) -> Reply:
        at = openapi.operation(seen.method, seen.path)
        if at is None:
            raise Trouble(404, "resource not found")
        if "requestBody" in at.spec and (errors := openapi.request_errors(at, seen.body)):
            raise Trouble(422, "Request validation failed.", errors)
        route = ROUTES.get((at.method, at.path))
        if route is None:
            raise Trouble(404, "resource not found")
        return route(self, seen)

    def _create(self, seen: Seen) -> Reply:
        return reply_json(201, answers.pod(self.cloud, self.cloud.create(seen.body)))

    def _get(self, seen: Seen) -> Reply:
        return reply_json(200, answers.pod(self.cloud, self.cloud.find(seen.part(3))))

    def _delete(self, seen: Seen) -> Reply:
        self.cloud.remove(self.cloud.find(seen.part(3)))
        return Reply(204)

    def _act(self, seen: Seen) -> Reply:
        pod, action = self.cloud.find(seen.part(3)), seen.body["action"]
        self.cloud.act(pod, action)
        return Reply(204) if action == "terminate" else reply_json(200, answers.pod(self.cloud, pod))

    def _list(self, seen: Seen) -> Reply:
        shown = [answers.pod(self.cloud, pod) for pod in self.cloud.listed()]
        size = self.cloud.faults.page
        if size is None:
            return reply_json(200, {"pods": shown})
        cursor = seen.query.get("cursor", "0")
        if not cursor.isdigit():
            raise Trouble(422, "Request validation failed.", ["cursor: not one of ours"])
        page, after = shown[int(cursor) : int(cursor) + size], int(cursor) + size
        more = after < len(shown)
        turn = {"nextCursor": str(after) if more else None, "hasNextPage": more}
        return reply_json(200, {"pods": page, "pagination": turn})

    def _catalogue(self, seen: Seen) -> Reply:
        wants = seen.query.get("include") == "AVAILABILITY"
        if wants != ("product" in seen.query):
            raise Trouble(400, "product is required with include=AVAILABILITY, and valid only with it")
        if "cudaVersions" in seen.query and "minCudaVersion" in seen.query:
            raise Trouble(400, "cudaVersions and minCudaVersion are mutually exclusive")
        count, cloud = int(seen.query.get("count", "1")), seen.query.get("cloud", "SECURE")
        gpus = [answers.gpu(found, wants, count, cloud) for found in self.cloud.gpus.values()]
        return reply_json(200, {"gpus": gpus})

    def _billing(self, seen: Seen) -> Reply:
        size = seen.query.get("bucketSize", "day")
        now = self.cloud.clock.now()
        begin = _unix(seen.query.get("startTime")) or now - 30 * 24 * HOUR
        records = self.cloud.bills(seen.query.get("podId"), begin, now, BUCKETS[size])
        total = sum(record["totalAmount"] for record in records)
        totals = {"totalAmount": total, "gpuAmount": total, "cpuAmount": 0.0, "diskAmount": 0.0}
        query = {"startTime": iso(begin), "endTime": iso(now), "bucketSize": size}
        pods = len({record["podId"] for record in records})
        meta = {"query": query, "recordCount": len(records), "uniquePodCount": pods, "totals": totals}
        return reply_json(200, {"records": records, "metadata": meta})

    def _log(self, seen: Seen) -> Reply:
        self.cloud.find(seen.part(3))
        ids = [f"2026-11-30T00:00:00Z/{number:012d}" for number in range(1, len(self.cloud.lines) + 1)]
        last = seen.headers.get("last-event-id")
        begin = ids.index(last) + 1 if last in ids else max(0, len(ids) - int(seen.query.get("tail", "100")))
        events = []
        for event_id, line in list(zip(ids, self.cloud.lines, strict=True))[begin:]:
            data = json.dumps({"ts": "2026-11-30T00:00:00Z", "source": "container", "line": line})
            events.append(f"id: {event_id}\ndata: {data}\n\n".encode())
        cut, self.cloud.faults.log_cut_after = self.cloud.faults.log_cut_after, None
        return Reply(200, kind="text/event-stream", events=events[:cut])

    def _graphql(self, seen: Seen) -> Reply:
        """HTTP 200 with `errors` for what goes wrong, save for the key (401) and its end (410)."""
        if self.cloud.faults.graphql_retired:
            return Reply(410, b"Gone", "text/plain", judged=False)
        if KEY not in (seen.headers.get("authorization", "").removeprefix("Bearer "), seen.query.get("api_key")):
            return Reply(401, b"Unauthorized", "text/plain", judged=False)
        self.cloud.charge()
        known = {
            "id": "user_1",
            "clientBalance": self.cloud.balance,
            "currentSpendPerHr": self.cloud.spending(),
            "spendLimit": self.cloud.limit,
        }
        asked = re.search(r"myself\s*\{([\w\s]+)\}", str((seen.body or {}).get("query")))
        fields = asked.group(1).split() if asked else []
        unknown = [name for name in fields if name not in known]
        error = self.cloud.faults.graphql_error or (f'Cannot query field "{unknown[0]}"' if unknown else None)
        if error or not fields:
            return _unjudged({"errors": [{"message": error or "Syntax Error"}], "data": None})
        return _unjudged({"data": {"myself": {name: known[name] for name in fields}}})

    def _judge(self, seen: Seen, reply: Reply) -> None:
        at = openapi.operation(seen.method, seen.path)
        if at is None:
            return
        for error in openapi.response_errors(at, reply.status, reply.kind, reply.body):
            self.violations.append(f"{seen.method} {seen.path} -> {reply.status}: {error}")


ROUTES: dict[tuple[str, str], Callable[[RunPodDouble, Seen], Reply]] = {
    ("get", "/v2/pods"): RunPodDouble._list,
    ("post", "/v2/pods"): RunPodDouble._create,
    ("get", "/v2/pods/{id}"): RunPodDouble._get,
    ("delete", "/v2/pods/{id}"): RunPodDouble._delete,
    ("post", "/v2/pods/{id}/action"): RunPodDouble._act,
    ("get", "/v2/pods/{id}/logs"): RunPodDouble._log,
    ("get", "/v2/catalog/gpus"): RunPodDouble._catalogue,
    ("get", "/v2/billing/pods"): RunPodDouble._billing,
}


def _unjudged(value: object) -> Reply:
    reply = reply_json(200, value)
    reply.judged = False
    return reply


def _problem(trouble: Trouble) -> Reply:
    title = TITLES.get(trouble.status, "Internal Server Error")
    body: dict[str, object] = {"title": title, "status": trouble.status, "detail": trouble.detail}
    if trouble.errors:
        body["errors"] = trouble.errors
    return Reply(trouble.status, json.dumps(body).encode(), PROBLEM)


def _unix(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None


def _handler(double: RunPodDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """A test's output is the test's."""

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(raw) if raw else None
            self.close_connection = True
            try:
                reply = double.answer(Seen(self.command, unquote(parts.path), query, headers, body))
            except Lost:
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("connection", "close")
            if reply.status != 204:
                self.send_header("content-type", reply.kind)
            if reply.events is None:
                self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            for part in [reply.body] if reply.events is None else reply.events:
                self.wfile.write(part)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    return Handler
