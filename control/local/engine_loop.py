"""The simulated engine at work: it runs the scheduler's steps in time, hands tokens to streams, and plays faults.

The clock and the sleep come from outside (engine.py), so that a test can run it on a clock of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from control.local.engine_answer import Piece
from control.local.engine_errors import DEAD, ApiError, engine_dead
from control.local.engine_kv import KvCache, chain
from control.local.engine_metrics import Gauges, Metrics
from control.local.engine_request import Ask
from control.local.engine_scheduler import Batch, Hold, Limits, Request, Scheduler, State, StepLaw
from control.local.engine_tokens import Tokens
from control.local.engine_wire import Cached

FaultKind = Literal["none", "freeze", "livelock", "deferred", "slow_prefill", "die", "stall_stream", "error_in_stream"]
FAULTS: tuple[str, ...] = get_args(FaultKind)
_LATE_S = 0.02
"""Steps that ended late are made up for, up to this much: a timer's jitter must not slow the engine."""

log = logging.getLogger("vllm.APIServer")
core_log = logging.getLogger("vllm.EngineCore")


class ClientGone(Exception):
    """The client of a stream has left."""


@dataclass(slots=True)
class Fault:
    """The fault that is played now. `target` is the stream that it hit, for those that hit one."""

    kind: FaultKind
    until: float | None
    """On the engine's clock; None: until it is changed."""
    factor: float
    target: Stream | None = None


class Stream:
    """One request's tokens on their way to its client."""

    def __init__(self, ask: Ask, request: Request) -> None:
        self.ask = ask
        self.request = request
        self._taken = 0
        self._error: ApiError | ClientGone | None = None
        self._ready = asyncio.Event()

    @property
    def finished(self) -> bool:
        """Every token was taken."""
        return self._taken == len(self.ask.answer.pieces)

    async def take(self) -> Sequence[Piece]:
        """The tokens since the last call, at least one. Raises ApiError when it failed, ClientGone when it was left."""
        await self._ready.wait()
        self._ready.clear()
        if self._error is not None:
            raise self._error
        begin, self._taken = self._taken, self.request.generated
        return self.ask.answer.pieces[begin : self._taken]

    def wake(self) -> None:
        self._ready.set()

    def fail(self, error: ApiError | ClientGone) -> None:
        self._error = self._error or error
        self._ready.set()


class Engine:
    """One engine. Nothing but `run` advances it; everything else takes effect at once."""

    def __init__(
        self,
        limits: Limits,
        kv: KvCache,
        law: StepLaw,
        tokens: Tokens,
        metrics: Metrics,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.scheduler = Scheduler(limits, kv)
        self.metrics = metrics
        self.streams: dict[str, Stream] = {}
        self.fault = Fault("none", None, 1.0)
        self.dead = False
        self.paused = False
        self.closed = asyncio.Event()
        self.steps = 0
        self.prompt_computed = 0
        self.generated = 0
        self._kv = kv
        self._law = law
        self._tokens = tokens
        self._clock = clock
        self._sleep = sleep
        self._wake = asyncio.Event()
        self._recent: deque[tuple[int, int]] = deque(maxlen=1000)

    def submit(self, ask: Ask, request_id: str) -> Stream:
        """Queues a request. Raises ApiError when the engine is dead or closed."""
        if self.closed.is_set():
            raise engine_dead() if self.dead else _closing()
        text = ask.prompt + ask.answer.raw(self._tokens)
        keys = chain(text, self.scheduler.limits.block_size * self._tokens.width)
        request = Request(request_id, ask.prompt_tokens, len(ask.answer.pieces), keys, self._clock())
        stream = self.streams[request_id] = Stream(ask, request)
        self.scheduler.submit(request)
        self._wake.set()
        return stream

    def leave(self, stream: Stream) -> None:
        """Frees a request whose client has left, or forgets one that ended. A second call does nothing."""
        self.scheduler.abort(stream.request)
        if self.streams.get(stream.request.id) is stream:
            del self.streams[stream.request.id]
        if self.fault.target is stream:
            self.set_fault("none")
        self._wake.set()

    def cached(self, stream: Stream) -> Cached:
        """What the prefix cache did for a request; zeros before its admission."""
        hit = stream.request.cached or 0
        full = stream.ask.prompt_tokens // self.scheduler.limits.block_size * self.scheduler.limits.block_size
        return Cached(hit, max(0, full - hit) if self._kv.prefix_caching else 0)

    async def run(self) -> None:
        """Steps until the engine is closed or dies."""
        due = self._clock()
        while not self.closed.is_set():
            now = self._clock()
            if self.fault.until is not None and now >= self.fault.until:
                self.set_fault("none")
            batch = None if self.paused or self.fault.kind == "freeze" else self.scheduler.schedule(now)
            if batch is None:
                await self._idle(now)
                due = self._clock()
                continue
            factor = self.fault.factor if self.fault.kind == "slow_prefill" else 1.0
            due = max(due, now - _LATE_S) + self._law.seconds(batch, factor)
            self._admitted(batch)
            await self._sleep(max(0.0, due - now))
            self._deliver(batch)

    def set_fault(self, kind: FaultKind, seconds: float | None = None, factor: float = 1.0) -> None:
        """Ends the fault that is played and begins this one, for `seconds` or until it is changed."""
        if self.fault.target is not None:
            self.fault.target.request.stalled = False
        until = None if seconds is None else self._clock() + seconds
        self.fault = Fault(kind, until, factor)
        holds = {"livelock": Hold.LIVELOCK, "deferred": Hold.DEFERRED}
        self.scheduler.set_hold(holds.get(kind, Hold.NONE))
        if kind == "die":
            self._die()
        self._hit_a_stream()
        self._wake.set()

    def pause(self) -> None:
        """Aborts every request, forgets the prefix cache, and makes no step until `resume`; who comes now waits."""
        self.paused = True
        for stream in list(self.streams.values()):
            stream.fail(ApiError(500, "The request was aborted: the engine goes to sleep.", "InternalServerError"))
            self.leave(stream)
        self._kv.forget()

    def resume(self) -> None:
        self.paused = False
        self._wake.set()

    def close(self) -> None:
        """Ends every request: the process is asked to stop."""
        self.closed.set()
        self._wake.set()
        for stream in self.streams.values():
            stream.fail(_closing())

    def gauges(self) -> Gauges:
        scheduler = self.scheduler
        return Gauges(len(scheduler.running), scheduler.waiting_by_reason(), self._kv.usage, scheduler.preemptions)

    def hit_rate(self) -> float:
        """Of the last 1000 admissions, 0 to 1: what vLLM's log calls the prefix cache hit rate."""
        queries = sum(asked for asked, _hit in self._recent)
        return sum(hit for _asked, hit in self._recent) / queries if queries else 0.0

    def state(self) -> dict[str, Any]:
        """GET /sim/state."""
        kv = self._kv
        target = self.fault.target
        return {
            "fault": {"kind": self.fault.kind, "target": None if target is None else target.request.id},
            "dead": self.dead,
            "steps": self.steps,
            "preemptions": self.scheduler.preemptions,
            "running": [_described(request) for request in self.scheduler.running],
            "waiting": [_described(request) for request in self.scheduler.waiting],
            "waiting_by_reason": self.scheduler.waiting_by_reason(),
            "kv": {"blocks": kv.total, "used": kv.used, "reusable": kv.reusable, "usage": kv.usage},
        }

    async def _idle(self, now: float) -> None:
        """Waits for something to do, or for the end of the fault."""
        left = None if self.fault.until is None else max(0.0, self.fault.until - now)
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._wake.wait()

    def _admitted(self, batch: Batch) -> None:
        for request in batch.admitted:
            self._recent.append((request.prompt_tokens, request.cached or 0))
            self.metrics.admitted(request)

    def _deliver(self, batch: Batch) -> None:
        now = self._clock()
        got = self.scheduler.complete(batch, now)
        self.steps += 1
        self.generated += len(got)
        self.prompt_computed += sum(r.prompt_tokens - (r.cached or 0) for r in got if r.gap_s is None)
        self.metrics.stepped(got, now)
        for request in got:
            stream = self.streams[request.id]
            stream.wake()
            if request.state is State.DONE:
                self.metrics.finished(request, stream.ask.answer.finish, stream.ask.max_tokens, now)
        self._hit_a_stream()

    def _hit_a_stream(self) -> None:
        """stall_stream and error_in_stream take the oldest stream that decodes, or wait for one."""
        if self.fault.kind not in ("stall_stream", "error_in_stream") or self.fault.target is not None:
            return
        streams = (self.streams[request.id] for request in self.scheduler.running if request.generated)
        target = next((stream for stream in streams if stream.ask.stream), None)
        if target is None:
            return
        self.fault.target = target
        if self.fault.kind == "stall_stream":
            target.request.stalled = True
        else:
            target.fail(ApiError(500, "Simulated fault: error_in_stream", "InternalServerError"))
            self.leave(target)

    def _die(self) -> None:
        """As when vLLM's EngineCore is killed: requests get a 500, the API server goes down by itself."""
        core_log.error("EngineCore encountered a fatal error.")
        log.error("AsyncLLM output_handler failed.")
        log.error("vllm.v1.engine.exceptions.EngineDeadError: %s", DEAD)
        self.dead = True
        self.closed.set()
        for stream in self.streams.values():
            stream.fail(engine_dead())


def _closing() -> ApiError:
    return ApiError(503, "The server is shutting down.", "Service Unavailable")


def _described(request: Request) -> dict[str, Any]:
    return {
        "id": request.id,
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": request.cached,
        "computed_tokens": request.computed,
        "generated_tokens": request.generated,
        "output_tokens": request.output_tokens,
        "blocks": len(request.blocks),
        "preemptions": request.preemptions,
        "stalled": request.stalled,
    }
