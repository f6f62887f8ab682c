"""Sleep mode as vLLM has it: who may call it, what it costs, what it forgets, and what waits meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from control.local import engine_sleep
from control.local.engine_options import parse
from control.local.engine_routes import Service, app
from tests.control.local.simulated import Clock, scripted, service

SLEEPY = ("--enable-sleep-mode", "--sim-sleep-seconds", "2")


def dev(served: Service, *flags: str) -> Service:
    served.options = parse(["serve", "tiny", *flags], dev_mode=True)
    return served


@asynccontextmanager
async def engine(
    monkeypatch: pytest.MonkeyPatch, *flags: str
) -> AsyncIterator[tuple[Service, Clock, httpx.AsyncClient]]:
    """A running engine whose sleep and wake take their time on its own clock."""
    clock = Clock()
    served = dev(service(clock), *flags)
    routes = engine_sleep.routes
    monkeypatch.setattr(engine_sleep, "routes", lambda engine, options: routes(engine, options, clock.sleep))
    application: Starlette = app(served)
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http, asyncio.TaskGroup() as group:
        task = group.create_task(served.engine.run())
        yield served, clock, http
        task.cancel()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("never came true")


def chat(text: str = "go") -> dict[str, Any]:
    return {"model": "tiny-qwen", "messages": scripted({"text": 40}, text)}


async def test_the_first_sleep_takes_long_and_the_later_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch, *SLEEPY) as (served, clock, http):
        for takes_s in (20.0, 2.0):
            began = clock()
            assert (await http.post("/sleep?level=1")).json() == {"status": "sleeping", "level": 1}
            assert clock() - began == takes_s
            assert (await http.get("/is_sleeping")).json() == {"is_sleeping": True}
            began = clock()
            assert (await http.post("/wake_up")).json() == {"status": "awake", "tags": None}
            assert clock() - began == 2.0
            assert (await http.get("/is_sleeping")).json() == {"is_sleeping": False}
        assert not served.engine.paused


async def test_what_comes_while_it_sleeps_waits_for_it_to_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch, *SLEEPY) as (served, _, http), asyncio.TaskGroup() as group:
        await http.post("/sleep")
        asked = group.create_task(http.post("/v1/chat/completions", json=chat()))
        await until(lambda: bool(served.engine.scheduler.waiting))
        assert "vllm:num_requests_waiting{" in (await http.get("/metrics")).text
        assert not asked.done()
        await http.post("/wake_up")
        assert (await asked).status_code == 200


async def test_the_prefix_cache_is_lost_and_what_runs_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch, *SLEEPY) as (served, _, http), asyncio.TaskGroup() as group:
        await http.post("/v1/chat/completions", json=chat("x" * 4000))
        assert served.engine.state()["kv"]["reusable"] > 0
        long = {"model": "tiny-qwen", "messages": scripted({"text": 8000}, "go")}
        running = group.create_task(http.post("/v1/chat/completions", json=long))
        await until(lambda: bool(served.engine.scheduler.running))
        await http.post("/sleep")
        answer = await running
        assert (answer.status_code, "goes to sleep" in answer.text) == (500, True)
        kv = served.engine.state()["kv"]
        assert (kv["used"], kv["reusable"]) == (0, 0)
        await http.post("/wake_up")
        assert (await http.post("/v1/chat/completions", json=chat())).status_code == 200


async def test_the_gauge_says_how_deep_it_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def states(http: httpx.AsyncClient) -> dict[str, float]:
        lines = (await http.get("/metrics")).text.splitlines()
        found = [line for line in lines if line.startswith("vllm:engine_sleep_state{")]
        return {line.split('sleep_state="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in found}

    async with engine(monkeypatch, *SLEEPY) as (_, _, http):
        assert await states(http) == {"awake": 1.0, "weights_offloaded": 0.0, "discard_all": 0.0}
        await http.post("/sleep?level=1")
        assert await states(http) == {"awake": 0.0, "weights_offloaded": 1.0, "discard_all": 0.0}
        await http.post("/wake_up")
        await http.post("/sleep?level=2")
        assert await states(http) == {"awake": 0.0, "weights_offloaded": 0.0, "discard_all": 1.0}


async def test_it_wakes_by_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch, *SLEEPY) as (_, _, http):
        await http.post("/sleep")
        assert (await http.post("/wake_up?tags=weights")).json() == {"status": "sleeping", "tags": ["weights"]}
        assert (await http.get("/is_sleeping")).json() == {"is_sleeping": True}
        assert (await http.post("/wake_up?tags=kv_cache")).json() == {"status": "awake", "tags": ["kv_cache"]}


async def test_a_second_sleep_or_wake_only_warns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with engine(monkeypatch, *SLEEPY) as (_, clock, http):
            assert (await http.post("/wake_up")).status_code == 200
            await http.post("/sleep")
            began = clock()
            assert (await http.post("/sleep")).status_code == 200
            assert clock() == began
            await http.post("/wake_up")
    said = [record.getMessage() for record in caplog.records]
    assert "Executor is not sleeping." in said
    assert "Executor is already sleeping." in said
    assert "It took 20.000000 seconds to fall asleep." in said
    assert "It took 2.000000 seconds to wake up tags ['kv_cache', 'weights']." in said


async def test_the_routes_are_not_there_without_the_dev_mode_and_refuse_without_the_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with engine(monkeypatch) as (_, _, http):
        refused = await http.post("/sleep")
        assert (refused.status_code, "--enable-sleep-mode" in refused.text) == (500, True)
        assert (await http.post("/sleep?level=9")).status_code == 400
        assert (await http.get("/is_sleeping")).json() == {"is_sleeping": False}
    plain = httpx.ASGITransport(app=app(service(Clock(), *SLEEPY)))
    async with httpx.AsyncClient(transport=plain, base_url="http://engine") as http:
        for method, path in (("POST", "/sleep"), ("POST", "/wake_up"), ("GET", "/is_sleeping")):
            answer = await http.request(method, path)
            assert (answer.status_code, json.loads(answer.text)) == (404, {"detail": "Not Found"})
