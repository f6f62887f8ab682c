"""The I/O of one admitted request: watches the client, moves the engine's bytes through its Answer, frees both ends."""

# Tasks of one group: one opens the engine's stream and pumps it, one waits for the client to leave, one speaks when the
# Answer says so. Whoever ends first ends the others. The ledger is closed in one place, at the end.

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, TypeVar

import aiohttp
from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from bridge import errors
from bridge.ledger import Ledger
from bridge.turn import Answer

log = logging.getLogger("bridge")

T = TypeVar("T")
Opening = AbstractAsyncContextManager[aiohttp.ClientResponse]
_STREAM_HEADERS = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


# An admitted request's response, which alone sees both ends. Once `stopped` is set it ends at once.
class Exchange(Response):
    # Entering `upstream` asks the engine, or raises BridgeError. Raises AtCapacity or Draining when it is not admitted.
    def __init__(self, answer: Answer, upstream: Opening, ledger: Ledger, stopped: asyncio.Event) -> None:
        ledger.admit(answer.record)
        self.background = None
        self._answer, self._record = answer, answer.record
        self._upstream, self._ledger, self._stopped = upstream, ledger, stopped
        self._free = asyncio.Event()  # nothing is being sent
        self._free.set()
        self._started = self._finished = False

    # Returns when the client has its answer or is gone, and the engine's connection is closed.
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send, record = send, self._record
        failure: errors.BridgeError = errors.Internal("the bridge failed; its log says how")
        try:
            await first_of(self._pump(), self._watch(receive), self._stop(), self._ping())
        except errors.BridgeError as error:
            failure = error
        finally:
            try:
                if record.client_connected and not self._finished:
                    await self._emit(self._answer.fail(failure, monotonic()))
            finally:
                self._ledger.close(record, monotonic())
                if not record.client_connected:
                    log.info("turn %s: the client left while %s", record.id, record.phase)
                elif record.failed:
                    log.warning("turn %s: %s", record.id, record.stop)

    async def _pump(self) -> None:
        answer = self._answer
        async with self._upstream as response:
            answer.opened(response.status, response.headers.get("content-type", ""))
            while not answer.ended and (data := await response.content.readany()):
                now = monotonic()
                self._ledger.heard(self._record, now)
                await self._emit(answer.feed(data, now))
            await self._emit(answer.eof(monotonic()))

    async def _stop(self) -> None:
        await self._stopped.wait()
        raise errors.Draining("the bridge was stopped before this answer was complete")

    # The server says that the client left after a whole answer too.
    async def _watch(self, receive: Receive) -> None:
        await left(receive)
        if not self._finished:
            self._record.client_connected = False
            self._ledger.counts["upstreams_cancelled"] += self._record.upstream_open

    async def _ping(self) -> None:
        while (due := self._answer.ping_due) is not None:
            await asyncio.sleep(due - monotonic())
            await self._emit(self._answer.tick(monotonic()))
        await asyncio.Event().wait()  # for the others

    # One at a time, without a lock: a ping and the engine's bytes meet only where the client does not read.
    async def _emit(self, frames: list[bytes]) -> None:
        while not self._free.is_set():
            await self._free.wait()
        ended = self._answer.ended
        if self._finished or not (frames or ended):
            return
        self._finished = ended  # before the last byte: the server says http.disconnect as soon as that is out
        self._free.clear()
        try:
            body = b"".join(frames)
            if not self._started:
                self._started = True
                await self._send(self._head(len(body) if ended else None))
            elif ended and self._record.failed and not self._answer.head.streams:
                return  # no end that could be taken for a message's: the server cuts the connection
            await self._send({"type": "http.response.body", "body": body, "more_body": not ended})
        finally:
            self._free.set()

    def _head(self, length: int | None) -> Message:
        head = self._answer.head
        headers = [(b"content-type", head.content_type.encode()), *(_STREAM_HEADERS if head.streams else ())]
        for name, number in ((b"content-length", length), (b"retry-after", head.retry_after)):
            headers += [] if number is None else [(name, b"%d" % number)]
        return {"type": "http.response.start", "status": head.status, "headers": headers}


# The result of the one that ends first; the others are cancelled. Raises what one of them raises.
async def first_of(*works: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
            done, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                task.cancel()
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    return done.pop().result()


# Until the client leaves: its body was read before, so that is the next message.
async def left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
