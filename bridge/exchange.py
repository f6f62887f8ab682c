"""The I/O of one admitted request: watches the client, moves the engine's bytes through its Answer, frees both ends."""

# Three tasks of one group: one opens the engine's stream and pumps it, one waits for the client to leave, one speaks
# when the Answer says so. Whoever ends first ends the others. The ledger is closed in one place, at the end.

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
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
PAD_FIRST_S, PAD_S = 60.0, 15.0
Opening = AbstractAsyncContextManager[httpx.Response]
_STREAM_HEADERS = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class Exchange(Response):
    """An admitted request's response, in `live` until it is over: it alone sees both ends."""

    # Entering `upstream` asks the engine, or raises BridgeError. Raises AtCapacity or Draining when it is not admitted.
    def __init__(self, answer: Answer, upstream: Opening, ledger: Ledger, live: set["Exchange"]) -> None:
        ledger.admit(answer.record)
        live.add(self)
        self.background = None
        self._answer, self._record = answer, answer.record
        self._upstream, self._ledger, self._live = upstream, ledger, live
        self._sending, self._aborted = asyncio.Lock(), asyncio.Event()
        self._started = self._padded = self._finished = False
        self._failure: BridgeError = Internal("the bridge failed; its log says how")

    def abort(self, error: BridgeError) -> None:
        self._failure = error
        self._aborted.set()

    # Returns when the client has its answer or is gone, and the engine's connection is closed.
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        try:
            async with asyncio.TaskGroup() as group:
                pinging = group.create_task(self._ping())
                ends = [group.create_task(one) for one in (self._pump(), self._watch(receive), self._aborted.wait())]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in (pinging, *ends):
                    task.cancel()
        finally:
            try:
                if self._record.client_connected and not self._finished:
                    await self._emit(self._answer.fail(self._failure, monotonic()))
            finally:
                self._close()

    async def _pump(self) -> None:
        answer = self._answer
        try:
            async with self._upstream as response:
                answer.opened(response.status_code, response.headers.get("content-type", ""))
                async for data in response.aiter_raw():
                    now = monotonic()
                    self._ledger.heard(self._record, now)
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
            self._record.client_connected = False
            self._ledger.counts["upstreams_cancelled"] += self._record.upstream_open

    async def _ping(self) -> None:
        while (due := self._answer.ping_due) is not None:
            await asyncio.sleep(due - monotonic())
            await self._emit(self._answer.tick(monotonic()))
        await asyncio.sleep(PAD_FIRST_S)
        while not self._record.stream and self._answer.head.content_type.startswith(JSON):
            self._padded = True
            await self._emit([b" "])
            await asyncio.sleep(PAD_S)

    async def _emit(self, frames: list[bytes]) -> None:
        async with self._sending:
            if self._finished or not (frames or self._answer.ended):
                return
            ended, body = self._answer.ended, b"".join(frames)
            if not self._started:
                await self._send(self._head(len(body) if ended else None))
                self._started = True
            # Before the last byte: the server says http.disconnect as soon as that is out.
            self._finished = ended
            if not (self._padded and self._record.failed):  # else the server cuts what has no end
                await self._send({"type": "http.response.body", "body": body, "more_body": not ended})

    def _head(self, length: int | None) -> Message:
        head = self._answer.head
        headers = [(b"content-type", head.content_type.encode())]
        for name, number in ((b"content-length", length), (b"retry-after", head.retry_after)):
            headers += [] if number is None else [(name, b"%d" % number)]
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


# The result of `work`, or None when the client left first; `work` is cancelled then. Raises what `work` raises.
async def unless_gone(receive: Receive, work: Coroutine[Any, Any, int]) -> int | None:
    async with asyncio.TaskGroup() as group:
        doing, watching = group.create_task(_outcome(work)), group.create_task(_left(receive))
        await asyncio.wait([doing, watching], return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        watching.cancel()
    outcome = None if doing.cancelled() else doing.result()
    if isinstance(outcome, BridgeError):
        raise outcome
    return outcome


# An error as a value: a task that raises would make its group raise another.
async def _outcome(work: Coroutine[Any, Any, int]) -> int | BridgeError:
    try:
        return await work
    except BridgeError as error:
        return error


# The body was read before, so the next message is the client's leaving.
async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
