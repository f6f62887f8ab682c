from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from control.local.engine_errors import DEAD, ApiError
from control.local.engine_loop import ClientGone, Engine, FaultKind, Stream
from control.local.engine_request import chat
from control.local.engine_routes import Service
from tests.control.local.simulated import Clock, scripted, service

_ids = count()
_TURNS = 20_000
"""Turns of the event loop that a condition may take; far more than any needs."""


@asynccontextmanager
async def running(*flags: str) -> AsyncIterator[Service]:
    """An engine that runs on a clock of its own."""
    served = service(Clock(), *flags)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(served.engine.run())
        yield served
        task.cancel()


def ask(served: Service, script: object, *, text: str = "go", stream: bool = True) -> Stream:
    body = {"messages": scripted(script, text), "stream": stream}
    return served.engine.submit(chat(body, served.model), f"chatcmpl-{next(_ids)}")


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(_TURNS):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("never came true")


async def turns(many: int = 400) -> None:
    for _ in range(many):
        await asyncio.sleep(0)


async def read(stream: Stream) -> str:
    said = ""
    while not stream.finished:
        said += "".join(piece.text for piece in await stream.take() if piece.kind == "text")
    return said


def alive(engine: Engine) -> tuple[int, int, int]:
    """Running, waiting, blocks held."""
    state = engine.state()
    return len(state["running"]), len(state["waiting"]), state["kv"]["used"]


async def test_a_request_is_answered_in_the_time_that_the_law_says() -> None:
    async with running("--sim-decode-us-per-token", "0", "--sim-prefill-tokens-per-s", "1000") as served:
        began = served.clock()
        stream = ask(served, {"text": "x" * 40}, text="p" * 400)
        assert await read(stream) == "x" * 40
        prompt, decodes = stream.ask.prompt_tokens, len(stream.ask.answer.pieces) - 1
        assert served.clock() - began == pytest.approx(prompt / 1000 + decodes * 0.004936)
        assert alive(served.engine) == (0, 0, 0)


async def test_the_next_turn_of_a_conversation_hits_prompt_and_answer() -> None:
    async with running() as served:
        first = ask(served, [{"text": "A" * 400}, {"text": "B"}], text="p" * 800)
        await read(first)
        marker = scripted([{"text": "A" * 400}, {"text": "B"}], "p" * 800)
        messages = [*marker, {"role": "assistant", "content": "A" * 400}, {"role": "user", "content": "more"}]
        body = {"messages": messages, "stream": True}
        second = served.engine.submit(chat(body, served.model), "chatcmpl-second")
        assert await read(second) == "B"
        whole = first.ask.prompt_tokens + len(first.ask.answer.pieces)
        # Script turns do not think, so that the rendered answer is what was generated, up to its last token.
        assert second.request.cached == (whole - 1) // 16 * 16
        assert served.engine.cached(second).hit == second.request.cached
        assert 0 < served.engine.hit_rate() < 1


async def test_who_leaves_is_freed_at_once_in_waiting_prefill_and_decode() -> None:
    flags = ("--max-num-batched-tokens", "64", "--max-num-seqs", "2", "--sim-prefill-tokens-per-s", "1000")
    async with running(*flags) as served:
        engine = served.engine
        decoding = ask(served, {"text": 4000})
        await until(lambda: decoding.request.generated > 3)
        prefilling = ask(served, {"text": 10}, text="p" * 20_000)
        await until(lambda: prefilling.request.computed > 0)
        waiting = ask(served, {"text": 10})
        assert (prefilling.request.generated, alive(engine)[:2]) == (0, (2, 1))
        for left, stays in ((waiting, (2, 0)), (prefilling, (1, 0)), (decoding, (0, 0))):
            engine.leave(left)
            assert alive(engine)[:2] == stays
        assert alive(engine)[2] == 0
        assert engine.streams == {}


async def test_frozen_makes_no_step_and_thaws() -> None:
    async with running() as served:
        engine = served.engine
        stream = ask(served, {"text": "x" * 400})
        await until(lambda: stream.request.generated > 3)
        engine.set_fault("freeze")
        await turns()
        before, steps = stream.request.generated, engine.steps
        await turns()
        assert (stream.request.generated, engine.steps, alive(engine)[0]) == (before, steps, 1)
        engine.set_fault("none")
        assert await read(stream) == "x" * 400


async def test_livelock_runs_nothing_and_waits_with_an_empty_cache() -> None:
    async with running() as served:
        engine = served.engine
        streams = [ask(served, {"text": "x" * 400}) for _ in range(3)]
        await until(lambda: all(stream.request.generated for stream in streams))
        engine.set_fault("livelock")
        await turns()
        assert alive(engine) == (0, 3, 0)
        assert engine.gauges().waiting == {"capacity": 3, "deferred": 0}
        generated = engine.generated
        await turns()
        assert engine.generated == generated
        engine.set_fault("none")
        assert [await read(stream) for stream in streams] == ["x" * 400] * 3


async def test_deferred_admits_nobody_and_says_so() -> None:
    async with running() as served:
        engine = served.engine
        engine.set_fault("deferred")
        stream = ask(served, {"text": "x"})
        await turns()
        assert alive(engine)[:2] == (0, 1)
        assert engine.gauges().waiting == {"capacity": 0, "deferred": 1}
        engine.set_fault("none")
        assert await read(stream) == "x"


async def test_slow_prefill_takes_longer_by_its_factor_and_ends_by_itself() -> None:
    async with running("--sim-prefill-tokens-per-s", "1000") as served:
        took = []
        for letter, factor in (("a", 1.0), ("b", 0.25)):
            served.engine.set_fault("slow_prefill", seconds=5.0, factor=factor)
            began = served.clock()
            stream = ask(served, {"text": ""}, text=letter * 4000)
            await read(stream)
            took.append((served.clock() - began) / stream.ask.prompt_tokens)
        assert took == pytest.approx([0.001, 0.004], rel=0.05)
        clock = served.clock
        assert isinstance(clock, Clock)
        clock.now += 10
        await read(ask(served, {"text": ""}))
        assert served.engine.fault.kind == "none"


@pytest.mark.parametrize("kind", ["freeze", "livelock"])
async def test_a_fault_for_some_seconds_ends_though_no_step_is_made(kind: FaultKind) -> None:
    async with running() as served:
        served.engine.set_fault(kind, seconds=0.001)
        stream = ask(served, {"text": "x"})
        clock = served.clock
        assert isinstance(clock, Clock)
        clock.now += 1
        assert await read(stream) == "x"
        assert served.engine.fault.kind == "none"


async def test_a_stalled_stream_gets_no_more_tokens_and_the_others_do() -> None:
    async with running() as served:
        engine = served.engine
        engine.set_fault("stall_stream")
        whole = ask(served, {"text": "w" * 40}, stream=False)
        victim, other = ask(served, {"text": "x" * 400}), ask(served, {"text": "y" * 400})
        assert [await read(whole), await read(other)] == ["w" * 40, "y" * 400]
        stalled = victim.request.generated
        await turns()
        assert victim.request.generated == stalled > 0
        assert alive(engine)[0] == 1
        assert engine.state()["fault"] == {"kind": "stall_stream", "target": victim.request.id}
        engine.set_fault("none")
        assert await read(victim) == "x" * 400


async def test_a_stall_ends_with_the_client_of_its_stream() -> None:
    async with running() as served:
        served.engine.set_fault("stall_stream")
        victim = ask(served, {"text": "x" * 400})
        await until(lambda: victim.request.stalled)
        served.engine.leave(victim)
        assert (served.engine.fault.kind, alive(served.engine)) == ("none", (0, 0, 0))
        assert await read(ask(served, {"text": "y"})) == "y"


async def test_error_in_stream_fails_one_stream_and_frees_it() -> None:
    async with running() as served:
        victim, other = ask(served, {"text": "x" * 400}), ask(served, {"text": "y" * 400})
        await until(lambda: victim.request.generated > 3)
        served.engine.set_fault("error_in_stream")
        with pytest.raises(ApiError) as caught:
            await read(victim)
        assert (caught.value.status, caught.value.kind) == (500, "InternalServerError")
        assert (served.engine.fault.kind, alive(served.engine)[0]) == ("none", 1)
        assert await read(other) == "y" * 400


async def test_a_dead_engine_fails_everyone_and_takes_no_more() -> None:
    async with running() as served:
        engine = served.engine
        stream = ask(served, {"text": "x" * 400})
        await until(lambda: stream.request.generated > 3)
        engine.set_fault("die")
        with pytest.raises(ApiError, match="EngineCore encountered an issue") as caught:
            await read(stream)
        assert (caught.value.status, caught.value.message) == (500, DEAD)
        assert engine.closed.is_set()
        with pytest.raises(ApiError, match="EngineCore encountered an issue"):
            ask(served, {"text": 1})


async def test_a_closed_engine_ends_its_streams() -> None:
    async with running() as served:
        stream = ask(served, {"text": "x" * 400})
        served.engine.close()
        with pytest.raises(ApiError, match="shutting down"):
            await read(stream)


async def test_a_stream_that_was_left_wakes_its_reader() -> None:
    async with running() as served:
        served.engine.set_fault("freeze")
        stream = ask(served, {"text": 1})
        stream.fail(ClientGone())
        with pytest.raises(ClientGone):
            await stream.take()
