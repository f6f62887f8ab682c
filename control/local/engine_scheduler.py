"""The simulated engine's scheduler: who computes how many tokens in the next step, and what the step took (pure).

It follows vLLM V1: one token for each decode first, the rest of the step's budget for prefill chunks, running ones
before waiting ones; first come, first served; recompute preemption of the newest. Three choices are stated here:

- Admission asks for room for the whole sequence, not for its first chunk (vLLM's scheduler_reserve_full_isl, on by
  default), against the blocks free now. So a long prompt waits "by capacity" long before the cache is full.
- Nobody is admitted in a step that preempted somebody, and nobody overtakes the head of the queue.
- vLLM visits running requests in order of admission; here every decode comes before every prefill chunk, so that
  a long prefill never starves a decode of its one token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from control.local.engine_kv import KvCache


class State(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


class Hold(StrEnum):
    """Faults of the scheduler itself. NONE is health."""

    NONE = "none"
    LIVELOCK = "livelock"
    """Nothing runs, nothing is scheduled, everyone waits by capacity with an empty cache."""
    DEFERRED = "deferred"
    """Nobody is admitted; who waits is counted as deferred."""


@dataclass(slots=True, eq=False)
class Request:
    """One sequence. What it will say is known from the start, so its output length and all its block keys are."""

    id: str
    prompt_tokens: int
    output_tokens: int
    """At least 1: what it generates before it ends, unless it is aborted."""
    keys: list[int]
    """One per full block of prompt and output (engine_kv.chain)."""
    arrived: float
    state: State = State.WAITING
    computed: int = 0
    """Tokens whose KV is in `blocks`."""
    generated: int = 0
    blocks: list[int] = field(default_factory=list)
    published: int = 0
    """How many of `blocks` others may hit."""
    cached: int | None = None
    """Prompt tokens found in the cache at the first admission; None before it."""
    preemptions: int = 0
    stalled: bool = False
    """A fault: it keeps its place and its blocks and gets no more tokens."""
    admitted_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    gap_s: float | None = None
    """Between its last two tokens; None before the second."""

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.generated

    @property
    def pending(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return self.total - self.computed

    @property
    def decoding(self) -> bool:
        return self.generated > 0 and self.pending == 1


@dataclass(frozen=True, slots=True)
class Limits:
    """vLLM's --max-num-seqs, --max-num-batched-tokens and --block-size."""

    sequences: int
    batched_tokens: int
    block_size: int


@dataclass(frozen=True, slots=True)
class StepLaw:
    """How long a step takes: prefill at a rate, decode by t(L) = base + slope * L, L the context of all decodes."""

    prefill_tokens_per_s: float
    decode_base_s: float
    decode_s_per_token: float

    def seconds(self, batch: Batch, prefill_factor: float = 1.0) -> float:
        prefill = context = decodes = 0
        for request, tokens in batch.items.items():
            if request.decoding:
                decodes += 1
                context += request.computed
            else:
                prefill += tokens
        took = prefill / (self.prefill_tokens_per_s * prefill_factor)
        if decodes:
            took += self.decode_base_s + self.decode_s_per_token * context
        return took


@dataclass(slots=True)
class Batch:
    """One step: how many tokens of which request are computed, and who was admitted for the first time."""

    items: dict[Request, int] = field(default_factory=dict)
    admitted: list[Request] = field(default_factory=list)
    tokens: int = 0

    def put(self, request: Request, tokens: int) -> None:
        self.items[request] = tokens
        self.tokens += tokens

    def drop(self, request: Request) -> None:
        self.tokens -= self.items.pop(request, 0)


class Scheduler:
    """`schedule` plans a step, `complete` applies it; `abort` and `set_hold` may come in between."""

    def __init__(self, limits: Limits, kv: KvCache) -> None:
        self.limits = limits
        self.kv = kv
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.preemptions = 0
        self.hold = Hold.NONE
        self._refused: tuple[Request, int] | None = None
        """The head that did not fit, and kv.releases then: looked at again only when something was released."""

    def fits(self, tokens: int) -> bool:
        """Whether a sequence of that length can ever run alone."""
        return self._blocks(tokens) <= self.kv.total

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Frees it at once, waiting or running; a second call does nothing."""
        if request.state is State.WAITING:
            self.waiting.remove(request)
        elif request.state is State.RUNNING:
            self.running.remove(request)
        self._free(request)
        request.state = State.DONE

    def set_hold(self, hold: Hold) -> None:
        self.hold = hold
        if hold is Hold.LIVELOCK:
            while self.running:
                self._preempt(self.running[-1])

    def waiting_by_reason(self) -> dict[str, int]:
        """vllm:num_requests_waiting_by_reason."""
        deferred = len(self.waiting) if self.hold is Hold.DEFERRED else 0
        return {"capacity": len(self.waiting) - deferred, "deferred": deferred}

    def schedule(self, now: float) -> Batch | None:
        """The next step, its blocks allocated; None when there is nothing to compute."""
        if self.hold is Hold.LIVELOCK:
            return None
        batch = Batch()
        before = self.preemptions
        runnable = [request for request in self.running if not request.stalled]
        decodes = [request for request in runnable if request.decoding]
        prefills = [request for request in runnable if not request.decoding]
        for request in (*decodes, *prefills):
            self._extend(request, batch)
        if self.preemptions == before and self.hold is Hold.NONE:
            self._admit_waiting(batch, now)
        return batch if batch.items else None

    def complete(self, batch: Batch, now: float) -> list[Request]:
        """Applies a step. Returns who got a token, in order; the ended ones among them are DONE and hold nothing."""
        got: list[Request] = []
        size = self.limits.block_size
        for request, tokens in batch.items.items():
            if request.state is not State.RUNNING or request.stalled:
                continue  # aborted, or hit by a fault, while the step ran
            request.computed += tokens
            full = min(request.computed // size, len(request.keys))
            for index in range(request.published, full):
                self.kv.publish(request.blocks[index], request.keys[index])
            request.published = max(request.published, full)
            if request.pending == 0:
                self._sample(request, now)
                got.append(request)
        return got

    def _sample(self, request: Request, now: float) -> None:
        request.generated += 1
        if request.last_token_at is None:
            request.first_token_at = now
        else:
            request.gap_s = now - request.last_token_at
        request.last_token_at = now
        if request.generated >= request.output_tokens:
            self.running.remove(request)
            self._free(request)
            request.state = State.DONE

    def _extend(self, request: Request, batch: Batch) -> None:
        """Gives a running request its tokens of this step, at the cost of the newest when no block is free."""
        tokens = min(request.pending, self.limits.batched_tokens - batch.tokens)
        if tokens < 1 or request.state is not State.RUNNING:
            return
        need = self._blocks(request.computed + tokens) - len(request.blocks)
        while need > self.kv.free:
            victim = next(other for other in reversed(self.running) if not other.stalled)
            self._preempt(victim)
            batch.drop(victim)
            if victim is request:
                return
        if need > 0:
            request.blocks.extend(self.kv.allocate(need))
        batch.put(request, tokens)

    def _admit_waiting(self, batch: Batch, now: float) -> None:
        while (
            self.waiting
            and batch.tokens < self.limits.batched_tokens
            and len(self.running) < self.limits.sequences
            and self._admit(self.waiting[0], batch, now)
        ):
            pass

    def _admit(self, request: Request, batch: Batch, now: float) -> bool:
        """Starts the head of the queue if its whole sequence fits in the blocks that are free now."""
        if self._refused == (request, self.kv.releases):
            return False
        size = self.limits.block_size
        # The last token is always computed anew: its logits are what the first output is sampled from.
        hit = self.kv.match(request.keys[: (request.total - 1) // size])
        if self._blocks(request.total) - len(hit) + self.kv.idle(hit) > self.kv.free:
            self._refused = (request, self.kv.releases)
            return False
        self._refused = None
        self.waiting.popleft()
        self.running.append(request)
        self.kv.claim(hit)
        request.state = State.RUNNING
        request.computed = len(hit) * size
        request.published = len(hit)
        tokens = min(request.pending, self.limits.batched_tokens - batch.tokens)
        request.blocks = hit + self.kv.allocate(self._blocks(request.computed + tokens) - len(hit))
        batch.put(request, tokens)
        if request.cached is None:
            request.cached = request.computed
            request.admitted_at = now
            batch.admitted.append(request)
        return True

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._free(request)
        request.state = State.WAITING
        request.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(request)

    def _free(self, request: Request) -> None:
        self.kv.release(request.blocks)
        request.blocks = []
        request.computed = 0
        request.published = 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)
