"""The ways to see that an engine is dead, with children in a list and metrics over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.engine import CORE_GONE_S, DEAD_S, STALL_S, STUCK_S, Engine, figures
from bootstrap.keeper import Launch
from bootstrap.machine import ENGINE, Event
from tests.bootstrap.answering import answering
from tests.bootstrap.shop import Bench, bench

LAUNCH = Launch("engine", ("vllm",), {}, "http://127.0.0.1:1/health", policy=replace(ENGINE, prepares=False))
DEAD = b"(EngineCore pid=7) ERROR 11-29 13:27:40 [core.py:1] CUDA error: an illegal memory access was encountered\n"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench(tmp_path) as desk:
        yield desk


def serving(desk: Bench, launch: Launch = LAUNCH) -> Engine:
    engine = Engine(launch, desk.shop)
    engine.post(Event("run"))
    engine.tell("answered")
    assert engine.service.phase == "serving"
    return engine


def killed(desk: Bench, engine: Engine) -> str | None:
    return engine.service.condemned if ("SIGKILL", 100) in desk.children.done else None


async def test_its_log_says_how_far_it_is(desk: Bench) -> None:
    engine = Engine(LAUNCH, desk.shop)
    engine.post(Event("run"))
    assert engine.service.phase == "starting"
    desk.children.outputs[100](b"(EngineCore pid=7) INFO 11-29 13:27:40 [core.py:1] Starting to load model x/a...\n")
    assert engine.view().state == "loading"
    assert [phase.name for phase in engine.signs.log.boot(1.0).phases] == ["start", "weights"]


async def test_a_core_that_was_there_and_is_gone(desk: Bench) -> None:
    engine = serving(desk)
    engine.look()  # a simulated engine never had one
    desk.now = 60.0
    engine.look()
    assert killed(desk, engine) is None
    desk.children.descendants[100] = frozenset({"VLLM::EngineCor"})
    engine.look()
    desk.children.descendants.clear()
    desk.now += CORE_GONE_S
    engine.look()
    assert killed(desk, engine) is None
    desk.now += 0.1
    engine.look()
    assert killed(desk, engine) == "its EngineCore process is gone"


async def test_a_line_that_says_that_it_died_and_then_it_has_a_moment_to_end(desk: Bench) -> None:
    engine = serving(desk)
    desk.now = 5.0
    desk.children.outputs[100](DEAD)
    desk.now += DEAD_S
    engine.look()
    assert killed(desk, engine) is None
    desk.now += 0.1
    engine.look()
    assert (killed(desk, engine) or "").startswith("its log says: ")
    assert "illegal memory access" in (killed(desk, engine) or "")


async def test_one_that_still_computes_is_not_dead_whatever_it_says(desk: Bench) -> None:
    tokens = b"HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 1\nvllm:generation_tokens_total 7\n"
    async with answering(b"HTTP/1.0 200 OK\r\n\r\n", tokens) as (port, _):
        engine = serving(desk, replace(LAUNCH, health=f"http://127.0.0.1:{port}/health"))
        engine._calling = True  # so that nobody but this test asks
        desk.children.outputs[100](DEAD)
        assert engine.signs.dead_at == 0.0
        await engine.check()
    desk.now = DEAD_S + 1.0
    engine.look()
    assert engine.service.condemned is None


async def test_what_failed_in_the_last_process_says_nothing_of_the_next(desk: Bench) -> None:
    engine = serving(desk)
    desk.children.outputs[100](DEAD)
    desk.children.end(100, "killed by SIGABRT")
    engine.tell("answered")
    desk.now = 60.0
    engine.look()
    assert engine.service.condemned is None


async def test_requests_without_progress(desk: Bench) -> None:
    engine = serving(desk)
    engine.signs.requests, engine.signs.progress = 3.0, (10.0, 0.5)
    desk.now = STALL_S
    engine.look()
    assert killed(desk, engine) is None
    desk.now += 1.0
    engine.look()
    assert killed(desk, engine) == "no token in 300 s, with 3 requests"


async def test_any_counter_that_moves_is_progress(desk: Bench) -> None:
    def metrics(tokens: int, usage: float) -> list[bytes]:
        text = f"vllm:num_requests_running 1\nvllm:generation_tokens_total {tokens}\nvllm:kv_cache_usage_perc {usage}\n"
        return [b"HTTP/1.0 200 OK\r\n\r\n", f"HTTP/1.0 200 OK\r\n\r\n{text}".encode()]  # /health, then /metrics

    async with answering(*metrics(5, 0.1), *metrics(5, 0.2), *metrics(5, 0.2), *metrics(6, 0.2)) as (port, _):
        engine = serving(desk, replace(LAUNCH, health=f"http://127.0.0.1:{port}/health"))
        engine._calling = True  # so that nobody but this test asks
        moved = []
        for _ in range(4):
            desk.now += 10.0
            await engine.check()
            moved.append(engine.signs.moved_at)
    assert moved == [10.0, 20.0, 20.0, 40.0]


async def test_when_a_draining_engine_may_end(desk: Bench) -> None:
    engine = serving(desk)
    engine.signs.requests, engine.signs.progress = 2.0, (1.0,)
    assert not engine.may_end(live=None)
    assert not engine.may_end(live=1)
    assert engine.may_end(live=0), "the bridge knows better than figures of two seconds ago"
    engine.signs.requests = 0.0
    assert engine.may_end(live=None)
    engine.signs.requests, engine.signs.progress = 2.0, (1.0,)
    desk.now = STUCK_S + 1.0
    assert engine.may_end(live=1), "what is stuck will never finish"


async def test_sleep_and_wake_are_told_over_http(desk: Bench) -> None:
    async with answering(b"HTTP/1.0 200 OK\r\n\r\n") as (port, asked):
        engine = Engine(replace(LAUNCH, health=f"http://127.0.0.1:{port}/health"), desk.shop)
        await engine.call("sleep")
        await engine.call("wake")
    assert asked == [b"POST /sleep?level=1 HTTP/1.0\r\n", b"POST /wake_up HTTP/1.0\r\n"]


def test_figures_are_summed_over_engines_and_nothing_else_is_read() -> None:
    text = (
        b"# HELP vllm:num_requests_running Number of requests\n"
        b'vllm:num_requests_running{engine="0",model_name="m"} 2.0\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} 1.0\n'
        b'vllm:num_requests_waiting{engine="0",model_name="m"} 4\n'
        b'vllm:generation_tokens_total{engine="0"} 1.5e+06\n'
        b'vllm:prompt_tokens_total{engine="0"} 10.0\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        b"vllm:generation_tokens_created 99\n"
        b"process_start_time_seconds 1.0\n"
    )
    assert figures(text) == (7.0, (1.5e6, 0.25, 10.0))
    assert figures(b"<html>") == (0.0, ())
