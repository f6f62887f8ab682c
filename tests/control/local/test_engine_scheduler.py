from __future__ import annotations

from collections import Counter
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from control.local.engine_kv import KvCache, chain
from control.local.engine_scheduler import Batch, Hold, Limits, Request, Scheduler, State, StepLaw

SIZE = 4
"""Block size; in these tests a token is one character."""
_ids = count()


def asked(prompt: str, output: int = 3, said: str = "z") -> Request:
    text = prompt + (said * output)[:output]
    return Request(f"r{next(_ids)}", len(prompt), output, chain(text, SIZE), arrived=0.0)


def world(blocks: int = 20, sequences: int = 8, batched: int = 16) -> Scheduler:
    return Scheduler(Limits(sequences, batched, SIZE), KvCache(blocks + 1))


def step(scheduler: Scheduler, now: float = 0.0) -> list[Request]:
    batch = scheduler.schedule(now)
    return [] if batch is None else scheduler.complete(batch, now)


def run(scheduler: Scheduler, most: int = 10_000) -> int:
    """Steps until nothing is left; returns how many it took."""
    for taken in range(most):
        if not scheduler.running and not scheduler.waiting:
            return taken
        step(scheduler)
    raise AssertionError(f"not done after {most} steps")


def test_a_prompt_longer_than_the_budget_is_prefilled_in_chunks() -> None:
    scheduler = world(batched=16)
    request = asked("p" * 40)
    scheduler.submit(request)
    chunks = []
    while request.generated == 0:
        batch = scheduler.schedule(0.0)
        assert batch is not None
        chunks.append(batch.tokens)
        scheduler.complete(batch, 0.0)
    assert chunks == [16, 16, 8]


def test_decodes_get_their_token_before_any_prefill_chunk() -> None:
    scheduler = world(batched=8)
    talker = asked("ab", output=50)
    scheduler.submit(talker)
    step(scheduler)
    scheduler.submit(asked("q" * 40))
    for _ in range(4):
        batch = scheduler.schedule(0.0)
        assert batch is not None
        assert batch.items[talker] == 1
        assert batch.tokens == 8
        scheduler.complete(batch, 0.0)


def test_a_prompt_that_does_not_fit_whole_waits_by_capacity_though_the_cache_is_far_from_full() -> None:
    scheduler = world(blocks=20)
    first, second = asked("a" * 52, output=4), asked("b" * 52, output=4)
    scheduler.submit(first)
    scheduler.submit(second)
    for _ in range(5):
        step(scheduler)
    assert scheduler.waiting_by_reason() == {"capacity": 1, "deferred": 0}
    assert scheduler.kv.usage < 0.8
    run(scheduler)
    assert (first.state, second.state) == (State.DONE, State.DONE)


def test_nobody_overtakes_the_head_of_the_queue() -> None:
    scheduler = world(blocks=20)
    scheduler.submit(asked("a" * 60, output=4))
    step(scheduler)
    big, small = asked("b" * 40), asked("c" * 4)
    scheduler.submit(big)
    scheduler.submit(small)
    for _ in range(3):
        step(scheduler)
    assert list(scheduler.waiting) == [big, small]


def test_max_num_seqs_bounds_who_runs() -> None:
    scheduler = world(sequences=2)
    for letter in "abc":
        scheduler.submit(asked(letter * 4))
    step(scheduler)
    assert (len(scheduler.running), len(scheduler.waiting)) == (2, 1)


def test_a_decode_without_a_free_block_preempts_the_newest_which_comes_back_first() -> None:
    scheduler = world(blocks=6, batched=64)
    old, new = asked("a" * 8, output=9), asked("b" * 8, output=9)
    scheduler.submit(old)
    scheduler.submit(new)
    while not scheduler.preemptions:
        step(scheduler)
    late = asked("c" * 4)
    scheduler.submit(late)
    assert new.preemptions == 1
    assert (new.computed, new.blocks) == (0, [])
    assert list(scheduler.waiting) == [new, late]
    assert old.state is State.RUNNING
    generated = new.generated
    run(scheduler)
    assert new.generated == new.output_tokens > generated
    assert scheduler.kv.used == 0


def test_nobody_is_admitted_in_a_step_that_preempted() -> None:
    scheduler = world(blocks=6, batched=64)
    for letter in "ab":
        scheduler.submit(asked(letter * 8, output=9))
    while True:
        before = scheduler.preemptions
        scheduler.submit(asked("c"))
        batch = scheduler.schedule(0.0)
        assert batch is not None
        if scheduler.preemptions > before:
            assert batch.admitted == []
            return
        scheduler.complete(batch, 0.0)


@given(st.integers(1, 60), st.integers(0, 40))
def test_a_repeated_prompt_hits_its_full_blocks_and_always_computes_its_last_token(prompt: int, tail: int) -> None:
    scheduler = world(blocks=60, batched=200)
    scheduler.submit(asked("p" * prompt, output=1))
    run(scheduler)
    again = asked("p" * prompt + "t" * tail, output=1)
    scheduler.submit(again)
    run(scheduler)
    assert again.cached == min(prompt, prompt + tail - 1) // SIZE * SIZE


def test_the_next_turn_hits_what_the_last_one_generated() -> None:
    scheduler = world(blocks=60, batched=200)
    scheduler.submit(asked("p" * 10, output=11, said="s"))
    run(scheduler)
    following = asked("p" * 10 + "s" * 11 + "u" * 9, output=1)
    scheduler.submit(following)
    run(scheduler)
    # 21 tokens are common and 20 of them were computed: the last token of an answer never is.
    assert following.cached == 20


def test_two_that_run_together_share_their_prefix_blocks() -> None:
    scheduler = world(blocks=20, batched=200)
    scheduler.submit(asked("p" * 40, output=30))
    step(scheduler)
    scheduler.submit(asked("p" * 40 + "x", output=30))
    step(scheduler)
    assert scheduler.kv.used == 12


def test_aborting_frees_at_once_in_waiting_prefill_and_decode_even_inside_a_step() -> None:
    scheduler = world(blocks=20, batched=8)
    decoding, prefilling, waiting = asked("a" * 4, output=50), asked("b" * 30), asked("c" * 70)
    for request in (decoding, prefilling, waiting):
        scheduler.submit(request)
        step(scheduler)
    batch = scheduler.schedule(0.0)
    assert batch is not None
    for request in (decoding, prefilling, waiting):
        scheduler.abort(request)
        scheduler.abort(request)
    assert (scheduler.kv.used, scheduler.running, list(scheduler.waiting)) == (0, [], [])
    assert scheduler.complete(batch, 0.0) == []
    assert scheduler.schedule(0.0) is None


def test_livelock_empties_the_running_list_and_the_cache_and_computes_nothing() -> None:
    scheduler = world()
    for letter in "ab":
        scheduler.submit(asked(letter * 9, output=5))
    step(scheduler)
    scheduler.set_hold(Hold.LIVELOCK)
    assert (scheduler.running, scheduler.kv.used) == ([], 0)
    assert scheduler.waiting_by_reason() == {"capacity": 2, "deferred": 0}
    assert scheduler.schedule(0.0) is None
    scheduler.set_hold(Hold.NONE)
    run(scheduler)


def test_deferred_admits_nobody_and_lets_the_running_finish() -> None:
    scheduler = world()
    first, second = asked("a" * 9), asked("b" * 9)
    scheduler.submit(first)
    step(scheduler)
    scheduler.set_hold(Hold.DEFERRED)
    scheduler.submit(second)
    for _ in range(10):
        step(scheduler)
    assert first.state is State.DONE
    assert scheduler.waiting_by_reason() == {"capacity": 0, "deferred": 1}
    scheduler.set_hold(Hold.NONE)
    run(scheduler)


def test_a_stalled_request_keeps_its_place_and_gets_no_token() -> None:
    scheduler = world()
    stalled, other = asked("a" * 9, output=5), asked("b" * 9, output=5)
    scheduler.submit(stalled)
    scheduler.submit(other)
    step(scheduler)
    stalled.stalled = True
    for _ in range(10):
        step(scheduler)
    assert (stalled.generated, other.state) == (1, State.DONE)
    assert stalled in scheduler.running
    stalled.stalled = False
    run(scheduler)
    assert stalled.generated == 5


def test_a_step_takes_what_the_law_says() -> None:
    law = StepLaw(prefill_tokens_per_s=1000, decode_base_s=0.005, decode_s_per_token=0.00001)
    decode = asked("a" * 100, output=5)
    decode.computed, decode.generated = 100, 1
    batch = Batch()
    batch.put(decode, 1)
    batch.put(asked("b" * 50), 50)
    assert law.seconds(batch) == 0.05 + 0.005 + 0.001
    assert law.seconds(batch, prefill_factor=0.5) == 0.1 + 0.005 + 0.001
    batch.drop(decode)
    assert (law.seconds(batch), batch.tokens) == (0.05, 50)


def test_times_of_a_request_are_those_of_the_steps() -> None:
    scheduler = world()
    request = asked("a" * 9, output=3)
    scheduler.submit(request)
    for now in (1.0, 2.0, 4.0):
        batch = scheduler.schedule(now)
        assert batch is not None
        scheduler.complete(batch, now + 0.5)
    assert (request.admitted_at, request.first_token_at, request.last_token_at) == (1.0, 1.5, 4.5)
    assert request.gap_s == 2.0


class Life(RuleBasedStateMachine):
    """Any mix of arrivals, departures, steps and faults keeps the books right, and everyone ends."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = world(blocks=12, sequences=3, batched=10)
        self.requests: list[Request] = []
        self.batch: Batch | None = None

    @rule(prefix=st.sampled_from(["", "aaaaaaaa", "aaaabbbb"]), tail=st.integers(1, 20), output=st.integers(1, 12))
    def submit(self, prefix: str, tail: int, output: int) -> None:
        request = asked(prefix + "t" * tail, output)
        self.requests.append(request)
        self.scheduler.submit(request)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.scheduler.abort(data.draw(st.sampled_from(self.requests)))

    @precondition(lambda self: self.batch is None)
    @rule()
    def schedule(self) -> None:
        self.batch = self.scheduler.schedule(0.0)
        if self.batch is not None:
            assert 0 < self.batch.tokens <= self.scheduler.limits.batched_tokens
            assert self.batch.tokens == sum(self.batch.items.values())
            assert all(request.state is State.RUNNING for request in self.batch.items)

    @precondition(lambda self: self.batch is not None)
    @rule()
    def complete(self) -> None:
        assert self.batch is not None
        self.scheduler.complete(self.batch, 0.0)
        self.batch = None

    @rule(hold=st.sampled_from(list(Hold)))
    def fault(self, hold: Hold) -> None:
        self.scheduler.set_hold(hold)

    @invariant()
    def blocks_are_conserved(self) -> None:
        kv = self.scheduler.kv
        held = Counter(block for request in self.scheduler.running for block in request.blocks)
        assert all(kv.refs(block) == held[block] for block in range(kv.total))
        assert kv.used == len(held)
        assert kv.used + kv.free == kv.total
        assert kv.reusable <= kv.total
        for request in self.scheduler.running:
            assert request.computed <= len(request.blocks) * SIZE

    @invariant()
    def nobody_is_lost(self) -> None:
        alive = [request for request in self.requests if request.state is not State.DONE]
        queued = [*self.scheduler.running, *self.scheduler.waiting]
        assert queued == alive, "first come, first served: running before waiting, each in order of arrival"
        assert all(not request.blocks for request in self.requests if request not in self.scheduler.running)
        assert len(self.scheduler.running) <= self.scheduler.limits.sequences
        assert sum(self.scheduler.waiting_by_reason().values()) == len(self.scheduler.waiting)

    def teardown(self) -> None:
        if self.batch is not None:
            self.scheduler.complete(self.batch, 0.0)
        alive = [request for request in self.requests if request.state is not State.DONE]
        self.scheduler.set_hold(Hold.NONE)
        run(self.scheduler, most=2000)
        assert all(request.generated == request.output_tokens for request in alive)
        assert self.scheduler.kv.used == 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
