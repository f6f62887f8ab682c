"""The I/O of one admitted request: watches the client, moves the engine's bytes through its Turn, frees both ends.

Three tasks of one group: one opens the engine's stream and pumps it, one waits for the client to leave, one speaks
when the Turn says so. Whoever ends first ends the others. The ledger is closed in one place, at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, TypeVar

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from bridge.errors import BridgeError, Internal
from bridge.ledger import Ledger
from bridge.turn import JSON, Relay
from bridge.upstream import Stream

log = logging.getLogger("bridge")

T = TypeVar("T")
_STREAM_HEADERS = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class Exchange(Response):
    """An admitted request's response: it alone sees both ends. `open_upstream` gives the engine's answer, or raises
    BridgeError. It is in `live` until it is over."""

    def __init__(
        self,
        answer: Relay,
        open_upstream: Callable[[], Coroutine[Any, Any, Stream]],
        ledger: Ledger,
        live: set[Exchange],
    ) -> None:
        self.background = None
        self._answer = answer
        self._record = answer.record
        self._open = open_upstream
        self._ledger = ledger
        self._live = live
        self._sending = asyncio.Lock()
        self._started = False
        self._finished = False
        self._work: asyncio.Task[None] | None = None
        self._failure: BridgeError = Internal("the bridge failed; its log says how")
        live.add(self)

    def abort(self, error: BridgeError) -> None:
        """End now, with this error as the terminal event."""
        if not self._finished:
            self._failure = error
            self._cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Returns when the client has its answer or is gone, and the engine's connection is closed."""
        self._send = send
        try:
            async with asyncio.TaskGroup() as group:
                self._work = group.create_task(self._pump())
                others = [group.create_task(self._watch(receive)), group.create_task(self._ping())]
                await asyncio.wait([self._work])
                for other in others:
                    other.cancel()
        finally:
            try:
                if self._record.client_connected and not self._finished:
                    await self._emit(self._answer.fail(self._failure, monotonic()))
            finally:
                self._close()

    async def _pump(self) -> None:
        answer, record = self._answer, self._record
        stream: Stream | None = None
        record.upstream_open = True
        try:
            stream = await self._open()
            answer.opened(stream.status, stream.content_type)
            while not answer.ended and (data := await stream.read()):
                await self._emit(answer.feed(data, monotonic()))
            await self._emit(answer.eof(monotonic()))
        except BridgeError as error:
            await self._emit(answer.fail(error, monotonic()))
        finally:
            if stream is not None:
                await stream.aclose()
            record.upstream_open = False

    async def _watch(self, receive: Receive) -> None:
        """The server says that the client left after a whole answer too."""
        await _left(receive)
        if not self._finished:
            self._record.client_connected = False
            self._ledger.cancelled += self._record.upstream_open
            self._cancel()

    async def _ping(self) -> None:
        while (due := self._answer.ping_due) is not None:
            await asyncio.sleep(due - monotonic())
            await self._emit(self._answer.tick(monotonic()))

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
                await self._send(self._head(len(body) if ended else None))
                self._started = True
            # Before the last byte: the server says http.disconnect as soon as that is out.
            self._finished = ended
            await self._send({"type": "http.response.body", "body": body, "more_body": not ended})

    def _head(self, length: int | None) -> Message:
        head = self._answer.head
        headers = [(b"content-type", head.content_type.encode())]
        for name, number in ((b"content-length", length), (b"retry-after", head.retry_after)):
            if number is not None:
                headers.append((name, b"%d" % number))
        if not head.content_type.startswith(JSON):
            headers += _STREAM_HEADERS
        return {"type": "http.response.start", "status": head.status, "headers": headers}

    def _close(self) -> None:
        record = self._record
        self._live.discard(self)
        self._ledger.close(record, monotonic())
        if not record.client_connected:
            log.info("turn %s: the client left while %s", record.id, record.phase)
        elif record.failed:
            log.warning("turn %s: %s", record.id, record.stop)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None when the client left first; `work` is cancelled then."""
    async with asyncio.TaskGroup() as group:
        doing = group.create_task(work)
        watching = group.create_task(_left(receive))
        await asyncio.wait([doing, watching], return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        watching.cancel()
    return None if doing.cancelled() else doing.result()


async def _left(receive: Receive) -> None:
    """The body was read before, so the next message is the client's leaving."""
    while (await receive())["type"] != "http.disconnect":
        pass
