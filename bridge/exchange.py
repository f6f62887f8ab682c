"""The I/O of one admitted request: watches the client, moves the engine's bytes through its Turn, frees both ends.

Three tasks of one group: one opens the engine's stream and pumps it, one waits for the client to leave, one speaks
when the Turn says so. Whoever ends first ends the others. The ledger is closed in one place, at the end.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import httpx
from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from bridge.answer import JSON, Answer
from bridge.errors import BridgeError, Internal
from bridge.ledger import Ledger

log = logging.getLogger("bridge")

# An answer in one piece may be silent for less than RunPod's proxy allows (100 s). Then its status is given away for
# spaces, which JSON allows in front; should it fail later, its connection is cut, which clients take as retryable.
PAD_FIRST_S = 60.0
PAD_S = 15.0
_STREAM_HEADERS = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


@dataclass(eq=False)
class Exchange(Response):
    """An admitted request's response: it alone sees both ends. Entering `upstream` asks the engine, or raises
    BridgeError. It is in `live` until it is over. Raises AtCapacity or Draining when it is not admitted."""

    answer: Answer
    upstream: AbstractAsyncContextManager[httpx.Response]
    ledger: Ledger
    live: set["Exchange"]
    background: None = None
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _started: bool = False
    _padded: bool = False
    _finished: bool = False
    _work: asyncio.Task[None] | None = None
    _failure: BridgeError = field(default_factory=lambda: Internal("the bridge failed; its log says how"))

    def __post_init__(self) -> None:
        self.record = self.answer.record
        self.ledger.admit(self.record)
        self.live.add(self)

    def abort(self, error: BridgeError) -> None:
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
                if self.record.client_connected and not self._finished:
                    await self._emit(self.answer.fail(self._failure, monotonic()))
            finally:
                self._close()

    async def _pump(self) -> None:
        answer = self.answer
        try:
            async with self.upstream as response:
                answer.opened(response.status_code, response.headers.get("content-type", ""))
                async for data in response.aiter_raw():
                    now = monotonic()
                    self.ledger.heard(self.record, now)
                    await self._emit(answer.feed(data, now))
                    if answer.ended:
                        break
                await self._emit(answer.eof(monotonic()))
        except BridgeError as error:
            await self._emit(answer.fail(error, monotonic()))

    # The server says that the client left after a whole answer too.
    async def _watch(self, receive: Receive) -> None:
        await _left(receive)
        if not self._finished:
            self.record.client_connected = False
            self.ledger.counts["upstreams_cancelled"] += self.record.upstream_open
            self._cancel()

    async def _ping(self) -> None:
        while (due := self.answer.ping_due) is not None:
            await asyncio.sleep(due - monotonic())
            await self._emit(self.answer.tick(monotonic()))
        await asyncio.sleep(PAD_FIRST_S)
        while not self.record.stream:
            self._padded = True
            await self._emit([b" "])
            await asyncio.sleep(PAD_S)

    # Once only: a second cancel would cut the closing of the upstream.
    def _cancel(self) -> None:
        if self._work is not None and not self._work.cancelling():
            self._work.cancel()

    async def _emit(self, frames: list[bytes]) -> None:
        async with self._sending:
            if self._finished or not (frames or self.answer.ended):
                return
            ended, body = self.answer.ended, b"".join(frames)
            if not self._started:
                await self._send(self._head(len(body) if ended else None))
                self._started = True
            # Before the last byte: the server says http.disconnect as soon as that is out.
            self._finished = ended
            if not (self._padded and self.record.failed):  # else the server cuts what has no end
                await self._send({"type": "http.response.body", "body": body, "more_body": not ended})

    def _head(self, length: int | None) -> Message:
        head = self.answer.head
        headers = [(b"content-type", head.content_type.encode())]
        for name, number in ((b"content-length", length), (b"retry-after", head.retry_after)):
            if number is not None:
                headers.append((name, b"%d" % number))
        if not head.content_type.startswith(JSON):
            headers += _STREAM_HEADERS
        return {"type": "http.response.start", "status": head.status, "headers": headers}

    def _close(self) -> None:
        self.live.discard(self)
        self.ledger.close(self.record, monotonic())
        if not self.record.client_connected:
            log.info("turn %s: the client left while %s", self.record.id, self.record.phase)
        elif self.record.failed:
            log.warning("turn %s: %s", self.record.id, self.record.stop)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, int]) -> int | None:
    """The result of `work`, or None when the client left first; `work` is cancelled then."""
    async with asyncio.TaskGroup() as group:
        doing, watching = group.create_task(work), group.create_task(_left(receive))
        await asyncio.wait([doing, watching], return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        watching.cancel()
    return None if doing.cancelled() else doing.result()


# The body was read before, so the next message is the client's leaving.
async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
