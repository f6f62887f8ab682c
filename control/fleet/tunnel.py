"""The front's two sides of the router: what goes to it is stamped with its conversation, what comes from it gets to its
replica with the token for that. Heads are written anew; what comes back is copied byte for byte, whatever it is.

The only file of the front with connections. One request per connection on every side, so its end is the exchange's end.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from control.fleet import router
from control.fleet.conversations import FORGOTTEN_S, Conversations
from control.fleet.head import END, BadHead, Head, parse
from control.fleet.models import FrontStatus, Place, ReplicaStatus
from control.fleet.replicas import Replica
from control.fleet.router import SESSION, Ports, door
from control.podlink import USER_AGENT

HEAD_MOST = 64 * 1024
BODY_MOST = 96 * 1024 * 1024
"""The bridge takes 64 MiB of a client, and writes it out in more words."""

CONNECT_S = 10.0
ROUTER_S = 20.0
"""How long a request waits for a router that is being started again."""

PIECE = 64 * 1024
OK = 200
TURN = "x-passerelle-turn"
STAMPED = ("/v1/chat/completions", "/v1/completions")
ANYWHERE = ("/v1/models", "/version", "/tokenize")
"""Any replica's answer is as good as another's. The router would ask the first, whether it lives or not."""


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Door:
    """One replica, and what goes through to it."""

    replica: Replica
    turns: int = 0
    moved: int = 0
    routed: bool = False
    homes: dict[str, float] = field(default_factory=dict)
    """Conversations that had their last turn here, and when."""

    def status(self, now: float) -> ReplicaStatus:
        place = self.replica.place
        lately = sum(now - at < FORGOTTEN_S for at in self.homes.values())
        return ReplicaStatus(self.replica.id, place.state, place.reason, self.turns, lately, self.moved, self.routed)


class Tunnel:
    """`serve` is a callback of asyncio.start_server."""

    def __init__(self, replicas: Sequence[Replica], ports: Ports, secret: str, status: Callable[[], FrontStatus]):
        self.ports = ports
        self.doors = {door(one.id): Door(one) for one in replicas}
        self._inside, self._bearer = inside(secret), f"Bearer {secret}"
        self._status = status
        self._conversations = Conversations()
        self._bodies: dict[str, bytes] = {}
        self._tls: ssl.SSLContext | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            try:
                head = parse(await reader.readuntil(END))
                length = head.length
            except (BadHead, asyncio.LimitOverrunError) as error:
                return await answer(writer, 400, str(error))
            if length > BODY_MOST:
                return await answer(writer, 413, f"the request is larger than {BODY_MOST} bytes")
            body = await reader.readexactly(length)
            await _unless_gone(reader, self._route(head, body, writer))

    async def _route(self, head: Head, body: bytes, writer: asyncio.StreamWriter) -> None:
        """From the router by a door, with our secret as the token that it hands through; from inside by a path."""
        path = head.target.partition("?")[0]
        at = next((prefix for prefix in self.doors if path.startswith(f"{prefix}/")), None)
        if at and path == f"{at}/health" and head.method == "GET":
            place = self.doors[at].replica.place
            await answer(writer, 200 if place.state == "serving" else 503, place.reason or place.state)
        elif at and _same(head.get("authorization") or "", self._bearer):
            await self._to_replica(self.doors[at], head, head.target[len(at) :], body, writer)
        elif not at and _same(path[: len(self._inside)], self._inside):
            await self._from_inside(replace(head, target=head.target[len(self._inside) :]), body, writer)
        else:
            await answer(writer, 401, "this is the inside of a fleet's front")

    async def _from_inside(self, head: Head, body: bytes, writer: asyncio.StreamWriter) -> None:
        """From the bridge, or from whoever asks how the front does."""
        path = head.target.partition("?")[0]
        if path == "/front":
            await _reply(writer, 200, msgspec.json.encode(self._status()))
        elif path in ANYWHERE:
            await self._anywhere(head, body, writer)
        elif path in STAMPED and head.method == "POST":
            await self._to_router(head, body, writer)
        elif path == "/metrics":
            here = f"http://127.0.0.1:{self.ports.metrics}"
            await self._pass(Place("serving", here), head, head.target, body, writer)
        else:
            await answer(writer, 404, f"{head.method} {path} is nothing that a fleet has")

    async def _to_router(self, head: Head, body: bytes, writer: asyncio.StreamWriter) -> None:
        """Only what it decides by. The body waits here for the door that it chooses: it would lose fields that it does
        not know, and read megabytes to no end."""
        try:
            asked = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            return await answer(writer, 400, f"the body is no JSON object: {error}")
        found = None if head.get(SESSION) else self._conversations.begin(asked, time.monotonic())
        stub = msgspec.json.encode(router.stub(asked))
        del asked
        turn = secrets.token_hex(8)
        self._bodies[turn] = body
        known = {SESSION: found.id} if found else {}
        add = {"authorization": self._bearer, TURN: turn, "content-length": str(len(stub)), **known}
        try:
            async with asyncio.timeout(ROUTER_S):
                there = await self._router()
            await _exchange(there, head.but(head.target, add).render() + stub, writer)
        except (OSError, TimeoutError) as error:
            await answer(writer, 503, f"the fleet's router does not answer: {_words(error)}")
        finally:
            del self._bodies[turn]
            if found:
                self._conversations.end(found, time.monotonic())

    async def _router(self) -> Connection:
        while True:
            with suppress(ConnectionError):
                return await asyncio.open_connection("127.0.0.1", self.ports.router)
            await asyncio.sleep(0.2)

    async def _to_replica(self, to: Door, head: Head, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        place, session = to.replica.place, head.get(SESSION)
        if place.state != "serving":
            return await answer(writer, 503, f"replica {to.replica.id}: {place.reason or place.state}")
        body = self._bodies.get(head.get(TURN) or "", body)
        to.turns += 1
        try:
            if await self._pass(place, head, target, body, writer) == OK and session:
                self._home(session, to)
        finally:
            to.turns -= 1

    def _home(self, session: str, to: Door) -> None:
        """Where a conversation's prefix is now."""
        now = time.monotonic()
        for other in self.doors.values():
            if other is not to and other.homes.pop(session, None) is not None:
                other.moved += 1
        to.homes[session] = now
        if len(to.homes) > 20_000:
            to.homes = {one: at for one, at in to.homes.items() if now - at < FORGOTTEN_S}

    async def _anywhere(self, head: Head, body: bytes, writer: asyncio.StreamWriter) -> None:
        for one in self.doors.values():
            if one.replica.place.state == "serving":
                await self._pass(one.replica.place, head, head.target, body, writer)
                return
        why = "; ".join(f"{one.replica.id}: {one.replica.place.reason}" for one in self.doors.values())
        await answer(writer, 503, f"no replica serves ({why})")

    async def _pass(self, place: Place, head: Head, target: str, body: bytes, writer: asyncio.StreamWriter) -> int:
        """The status of what came back, or 0."""
        url = urlsplit(place.url or "")
        secure = url.scheme == "https"
        token = {"authorization": f"Bearer {place.token}"} if place.token else {}
        port = f":{url.port}" if url.port else ""
        add = {"host": f"{url.hostname}{port}", "user-agent": USER_AGENT, "accept-encoding": "identity", **token}
        if body:
            add["content-length"] = str(len(body))
        if (session := head.get(SESSION)) and place.token:
            add["x-claude-code-session-id"] = session  # so that the pod's own screen has the same row as the fleet's
        sent = head.but(url.path.rstrip("/") + target, add, ("authorization", TURN)).render() + body
        try:
            async with asyncio.timeout(CONNECT_S):
                if secure and self._tls is None:
                    self._tls = ssl.create_default_context()
                at = url.port or (443 if secure else 80)
                there = await asyncio.open_connection(url.hostname, at, ssl=self._tls if secure else None)
        except (OSError, TimeoutError) as error:
            await answer(writer, 503, f"the replica does not answer: {_words(error)}")
            return 0
        return await _exchange(there, sent, writer)


def inside(secret: str) -> str:
    """The path under which the tunnel takes requests. A path, since the bridge has no header for its engine."""
    return f"/inside/{secret}"


def _same(given: str, ours: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1"), ours.encode("latin-1"))


async def _exchange(there: Connection, request: bytes, writer: asyncio.StreamWriter) -> int:
    """Ask, and copy what comes back until its end; its status, or 0 when nothing came.

    A connection that breaks is an end: what was cut short stays so, since its length or its chunks say it.
    """
    status = 0
    try:
        with suppress(ConnectionError):
            there[1].write(request)
            await there[1].drain()
            while data := await there[0].read(PIECE):
                status = status or int(data[9:12])
                writer.write(data)
                await writer.drain()
    except ValueError:
        status = 0
    finally:
        there[1].transport.abort()
    if not status:
        await answer(writer, 502, "it closed without an answer")
    return status


async def _unless_gone(reader: asyncio.StreamReader, work: Coroutine[Any, Any, None]) -> None:
    """The work, to its end or until the client has left; it is cancelled then, and with it what it has open."""
    async with asyncio.TaskGroup() as group:
        doing, watching = group.create_task(_quietly(work)), group.create_task(_left(reader))
        await asyncio.wait([doing, watching], return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        watching.cancel()


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """A client that leaves while it is written to is nobody's fault."""
    with suppress(ConnectionError):
        await work


async def _left(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read(1)


async def answer(writer: asyncio.StreamWriter, status: int, message: str) -> None:
    kind = "overloaded_error" if status == 503 else "api_error"
    await _reply(writer, status, msgspec.json.encode({"error": {"message": message, "type": kind, "code": status}}))


async def _reply(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
    writer.write(head.encode() + END + body)
    await writer.drain()


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
