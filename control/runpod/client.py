"""The only file that speaks HTTP to RunPod's REST v2. httpx's exceptions and RunPod's error bodies end here.

What may be repeated: GET, DELETE and the actions that change nothing when they come twice, after 5xx and lost
connections; anything after a 429, which did nothing. A POST that creates is sent once: Ambiguous means "look it up".
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec

from control.clock import Clock
from control.errors import PasserelleError, Unreachable
from control.keys import masked
from control.runpod import wire
from control.runpod.problems import Ambiguous, Limited, problem

T = TypeVar("T")

LOG = logging.getLogger(__name__)
"""On stderr while a verb runs; a screen switches it off."""

API = "https://api.runpod.io"
PROXY = "https://{id}-{port}.proxy.runpod.net"

DEADLINE_S = 15.0
CREATE_DEADLINE_S = 60.0
"""Creating looks for a machine first."""

BACKOFF_S = (0.5, 2.0)
WAITS_FOR_LIMIT = 5
MOST_PAGES = 100
LOG_SILENCE_S = 60.0
"""A log stream says nothing while the pod says nothing; a dead connection looks the same, so it is opened anew."""

USER_AGENT = "passerelle/0.1 (+httpx)"
"""Cloudflare answers 403 to a request without one, and to Python's default one."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where RunPod is, and who we are there."""

    key: str = field(repr=False)
    api: str = API
    proxy: str = PROXY

    @classmethod
    def of(cls, key: str, environ: Mapping[str, str] = os.environ) -> Access:
        """RUNPOD_API_BASE_URL is the name that RunPod's own library reads, so that one setting moves both."""
        api = environ.get("RUNPOD_API_BASE_URL") or API
        return cls(key, api.rstrip("/"), environ.get("PASSERELLE_RUNPOD_PROXY") or PROXY)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


class Client:
    """A connection per call: calls are seconds apart, and come from the event loops of several verbs in turn."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.access = access
        self._clock = clock
        self._tls = ssl.create_default_context() if access.api.startswith("https://") else False

    async def get(self, path: str, **params: str) -> bytes:
        """Raises PasserelleError (control.runpod.problems), as every call here does."""
        return (await self._persist("GET", path, params=params)).body

    async def delete(self, path: str) -> None:
        await self._persist("DELETE", path)

    async def act(self, pod_id: str, action: str) -> bytes:
        """start, stop, restart: accepted at once or refused; asking twice does no harm."""
        body = {"action": action}
        return (await self._persist("POST", f"/v2/pods/{quote(pod_id, safe='')}/action", body=body)).body

    async def create(self, body: Mapping[str, object], secrets: tuple[str, ...]) -> bytes:
        """One POST, never repeated save after a 429. Raises Ambiguous when a pod may have been made all the same."""
        answer = await self._once("POST", "/v2/pods", body=body, deadline_s=CREATE_DEADLINE_S, secrets=secrets)
        return answer.body

    async def pods(self) -> tuple[wire.PodAnswer, ...]:
        """Every pod of the account, whether or not the service pages its list."""
        found: list[wire.PodAnswer] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            body = await self.get("/v2/pods", **({"cursor": cursor} if cursor else {}))
            found += read(wire.pods, body)
            before, cursor = cursor, read(wire.next_cursor, body)
            if cursor is None or cursor == before:
                break
        return tuple(found)

    async def log(self, pod_id: str, *, tail: int, source: str | None, follow: bool) -> AsyncIterator[bytes]:
        """The data of each log record. Without `follow` it ends when nothing comes for a moment."""
        params = {"tail": str(tail)} | ({"source": source} if source else {})
        last_id: str | None = None
        seen: set[str] = set()
        while True:
            try:
                async for event_id, data in self._events(pod_id, params, last_id, LOG_SILENCE_S if follow else 2.0):
                    if event_id and event_id in seen:
                        continue
                    if event_id:
                        last_id, seen = event_id, {*list(seen)[-5000:], event_id}
                    yield data
            except (httpx.TransportError, httpx.StreamError) as error:
                if not follow and not isinstance(error, httpx.ReadTimeout):
                    raise Unreachable(f"the log of {pod_id} broke off: {_kind(error)}") from error
            if not follow:
                return
            await self._clock.sleep(BACKOFF_S[-1])

    async def _events(
        self, pod_id: str, params: dict[str, str], last_id: str | None, silence_s: float
    ) -> AsyncIterator[tuple[str | None, bytes]]:
        headers = {"accept": "text/event-stream"} | ({"last-event-id": last_id} if last_id else {})
        path = f"/v2/pods/{quote(pod_id, safe='')}/logs"
        async with self._open(silence_s) as client, client.stream("GET", path, params=params, headers=headers) as got:
            if got.status_code >= 300:
                raise self._problem("GET", path, got.status_code, got.headers, await got.aread(), ())
            event_id: str | None = None
            data: list[str] = []
            async for line in got.aiter_lines():
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "id":
                    event_id = value
                elif name == "data":
                    data.append(value)
                elif not line and data:
                    yield event_id, "\n".join(data).encode()
                    data.clear()

    async def _persist(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: object = None
    ) -> Answer:
        for delay in BACKOFF_S:
            try:
                return await self._once(method, path, params=params, body=body)
            except Ambiguous:
                await self._clock.sleep(delay)
        return await self._once(method, path, params=params, body=body)

    async def _once(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        deadline_s: float = DEADLINE_S,
        secrets: tuple[str, ...] = (),
    ) -> Answer:
        """One request, sent again only where a 429 says that nothing was done."""
        for _ in range(WAITS_FOR_LIMIT):
            try:
                return await self._send(method, path, params, body, deadline_s, secrets)
            except Limited as limited:
                LOG.warning("passerelle: RunPod takes no more requests for now; waiting %.0f s", limited.wait_s)
                await self._clock.sleep(limited.wait_s)
        return await self._send(method, path, params, body, deadline_s, secrets)

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: object,
        deadline_s: float,
        secrets: tuple[str, ...],
    ) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if content is None else {"content-type": "application/json"}
        try:
            async with self._open(deadline_s) as client:
                got = await client.request(method, path, params=params, content=content, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(
                f"cannot reach RunPod at {self.access.api}: {_kind(error)}",
                "is there a network? https://uptime.runpod.io says whether it is RunPod",
            ) from error
        except httpx.HTTPError as error:
            raise Ambiguous(f"no answer from RunPod to {method} {path}: {_kind(error)}") from error
        if got.is_success:
            return Answer(got.status_code, got.content)
        raise self._problem(method, path, got.status_code, got.headers, got.content, secrets)

    def _problem(
        self, method: str, path: str, status: int, headers: httpx.Headers, body: bytes, secrets: tuple[str, ...]
    ) -> PasserelleError:
        text = masked(body.decode("utf-8", "replace"), (self.access.key, *secrets))
        return problem(status, headers, text.encode(), f"{method} {path}")

    @asynccontextmanager
    async def _open(self, deadline_s: float) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(
            base_url=self.access.api,
            headers={"authorization": f"Bearer {self.access.key}", "user-agent": USER_AGENT},
            timeout=httpx.Timeout(deadline_s, connect=min(deadline_s, 10.0)),
            verify=self._tls,
            trust_env=not self.access.api.startswith("http://127."),
        ) as client:
            yield client


def read(reader: Callable[[bytes], T], body: bytes) -> T:
    """What `reader` makes of an answer; one that it cannot read is an answer that did not come."""
    try:
        return reader(body)
    except wire.WireError as error:
        raise Ambiguous(f"RunPod's answer: {error}") from error


def _kind(error: Exception) -> str:
    return str(error) or type(error).__name__
