"""The I/O of one admitted request: watches the client, moves the engine's bytes through its Answer, frees both ends.

Three tasks of one group: `work` opens the engine's stream and pumps it, `watch` waits for the client to leave, `ping`
speaks when the Answer says so. Whoever ends first ends the others. The ledger is closed in one place, at the end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeAlias, TypeVar

from bridge.answer import JSON
from bridge.errors import BridgeError, Internal
from bridge.ledger import Entry, Ledger
from bridge.upstream import Stream

log = logging.getLogger("bridge")

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

_STREAM_HEADERS = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class Exchange:
    """`open_upstream` gives the engine's answer, or raises BridgeError."""

    def __init__(self, ledger: Ledger, entry: Entry, open_upstream: Callable[[], Coroutine[Any, Any, Stream]]) -> None:
        self._ledger = ledger
        self._entry = entry
        self._answer = entry.answer
        self._open = open_upstream
        self._sending = asyncio.Lock()
        self._started = False
        self._finished = False
        self._work: asyncio.Task[None] | None = None
        self._aborted: BridgeError | None = None

    def abort(self, error: BridgeError) -> None:
        """End now, with this error as the stream's terminal event."""
        if self._aborted is None and not self._finished:
            self._aborted = error
            self._cancel()

    async def run(self, receive: Receive, send: Send) -> None:
        """Returns when the client has its answer or is gone, and the engine's connection is closed."""
        entry = self._entry
        self._send = send
        try:
            async with asyncio.TaskGroup() as group:
                self._work = group.create_task(self._pump())
                others = [group.create_task(self._watch(receive)), group.create_task(self._ping())]
                await asyncio.wait([self._work])
                for other in others:
                    other.cancel()
            if self._aborted is not None and entry.client_connected:
                await self._emit(self._answer.fail(self._aborted, time.monotonic()))
        finally:
            try:
                if not self._finished and entry.client_connected:
                    await self._emit(self._answer.fail(Internal("the bridge failed; its log says how"), _now()))
            finally:
                self._ledger.close(entry, _now())
                self._note()

    async def _pump(self) -> None:
        answer, entry = self._answer, self._entry
        stream: Stream | None = None
        entry.upstream_open = True
        try:
            stream = await self._open()
            answer.opened(stream.status, stream.content_type, _now())
            while not answer.ended and (data := await stream.read()):
                await self._emit(answer.feed(data, _now()))
            await self._emit(answer.eof(_now()))
        except BridgeError as error:
            await self._emit(answer.fail(error, _now()))
        finally:
            if stream is not None:
                await stream.aclose()
            entry.upstream_open = False

    async def _watch(self, receive: Receive) -> None:
        """The body was read before, so the next message is the client's leaving. It also comes after a whole answer."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._finished:
            self._entry.client_connected = False
            self._ledger.counts.cancelled_upstreams += self._entry.upstream_open
            self._cancel()

    async def _ping(self) -> None:
        while (due := self._answer.ping_due) is not None:
            wait = due - _now()
            if wait > 0:
                await asyncio.sleep(wait)
            else:
                await self._emit(self._answer.tick(_now()))

    def _cancel(self) -> None:
        """Once only: a second cancel would cut the closing of the upstream."""
        if self._work is not None and not self._work.cancelling():
            self._work.cancel()

    async def _emit(self, frames: list[bytes]) -> None:
        answer = self._answer
        async with self._sending:
            if self._finished or not (frames or answer.ended):
                return
            ended, body = answer.ended, b"".join(frames)
            if not self._started:
                await self._send({"type": "http.response.start", **self._head(len(body) if ended else None)})
                self._started = True
            # Before the last byte: the server says http.disconnect as soon as that is out.
            self._finished = ended
            await self._send({"type": "http.response.body", "body": body, "more_body": not ended})

    def _head(self, length: int | None) -> Message:
        head = self._answer.head
        headers = [(b"content-type", head.content_type.encode())]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        if head.retry_after is not None:
            headers.append((b"retry-after", str(head.retry_after).encode()))
        if not head.content_type.startswith(JSON):
            headers += _STREAM_HEADERS
        return {"status": head.status, "headers": headers}

    def _note(self) -> None:
        entry, progress = self._entry, self._entry.progress
        if not entry.client_connected:
            log.info("turn %s: the client left while %s", entry.id, progress.phase)
        elif progress.failed:
            log.warning("turn %s: %s", entry.id, progress.stop)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None when the client left first; `work` is cancelled then."""
    async with asyncio.TaskGroup() as group:
        doing = group.create_task(work)
        watching = group.create_task(_gone(receive))
        await asyncio.wait([doing, watching], return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        watching.cancel()
    return None if doing.cancelled() else doing.result()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _now() -> float:
    return time.monotonic()
