from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest

from bridge import supervisor
from bridge.errors import EngineUnreachable, SupervisorUnreachable
from bridge.supervisor import EngineState, Refused, Supervisor
from tests.bridge.pod import Pod, pod, serving, statuses
from tests.bridge.running import until

pytestmark = pytest.mark.process

FIRST = EngineState("serving", "http://127.0.0.1:1")
LOAD = [0, 0]


def of(path: str | None, engine: EngineState = FIRST) -> Supervisor:
    return Supervisor(path, engine, lambda: (LOAD[0], LOAD[1]))


@asynccontextmanager
async def following(one: Pod, engine: EngineState = FIRST) -> AsyncIterator[Supervisor]:
    seen = of(one.path, engine)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(seen.follow())
        await until(lambda: seen.engine is not engine)
        yield seen
        task.cancel()


def soon(seconds: float = 5.0) -> float:
    return monotonic() + seconds


async def test_it_is_asked_one_line_at_a_time() -> None:
    async with pod(statuses({"log": ["x" * 200_000]})) as one:
        status, problem = await of(one.path).status(7)
    assert status == {"log": ["x" * 200_000]}
    assert problem is None
    assert one.got == [{"cmd": "status", "log_after": 7}]


@pytest.mark.parametrize("line", [b"", b"nonsense\n", b"[]\n", b"cut"])
async def test_a_supervisor_that_answers_badly_is_a_state(line: bytes) -> None:
    async with pod(lambda _: line) as one:
        with pytest.raises(SupervisorUnreachable):
            await of(one.path).ask({"cmd": "restart"})
        status, problem = await of(one.path).status(0)
    assert status is None
    assert problem


async def test_a_no_says_why_and_when_to_ask_again() -> None:
    async with pod(lambda _: b'{"ok":false,"error":"dwell time","wait_s":12}\n') as one:
        with pytest.raises(Refused, match="dwell time") as refused:
            await of(one.path).ask({"cmd": "swap"})
    assert (refused.value.status, refused.value.wait_s) == (409, 12)


async def test_an_answer_without_a_status_is_a_problem() -> None:
    async with pod() as one:
        assert await of(one.path).status(0) == (None, "the supervisor's answer has no status")


async def test_a_frozen_supervisor_costs_what_it_may_and_no_more() -> None:
    async with pod(lambda _: None) as one:
        with pytest.raises(SupervisorUnreachable, match=r"within 0\.1 s"):
            await of(one.path).ask({"cmd": "status"}, within_s=0.1)


@pytest.mark.parametrize("path", ["/nonexistent/b.sock", None])
async def test_no_supervisor_is_a_state(path: str | None) -> None:
    with pytest.raises(SupervisorUnreachable):
        await of(path).ask({"cmd": "status"})


async def test_without_a_supervisor_the_engine_serves_where_it_was_said_to() -> None:
    alone = of(None)
    await alone.follow()
    assert await alone.serving(until=0.0) == FIRST


async def test_the_engines_state_is_followed_and_survives_the_supervisors_absence() -> None:
    async with pod(state=serving("http://127.0.0.1:2", "qwen", qwen=["q", "claude-q"])) as one, following(one) as seen:
        assert seen.engine == EngineState("serving", "http://127.0.0.1:2", "qwen", {"qwen": ("q", "claude-q")})
        one.says(state="changing", url=None, reason="restart", eta_s=3.0)
        await until(lambda: seen.engine.state == "changing")
        one.watchers[0].close()
        await until(lambda: bool(one.watchers))
        assert seen.engine.reason == "restart"


async def test_a_line_that_is_not_a_state_only_ends_that_connection() -> None:
    async with pod() as one, following(one) as seen:
        one.watchers[0].write(b'{"ok":false,"error":"no such command"}\n')
        await until(lambda: not one.watchers)
        await until(lambda: bool(one.watchers))
        assert seen.engine.state == "serving"


async def test_it_is_told_the_load_at_start_and_at_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "TELL_S", 0.01)
    async with pod() as one, following(one):
        await until(lambda: bool(one.told))
        await asyncio.sleep(0.05)
        LOAD[:] = 3, 7
        await until(lambda: len(one.told) == 2)
        LOAD[:] = 0, 0
    assert one.told == [{"live": 0, "clients": 0}, {"live": 3, "clients": 7}]


async def test_while_it_changes_a_request_waits_and_goes_on_when_it_serves() -> None:
    async with pod(state={"state": "changing", "url": None, "reason": "start"}) as one, following(one) as seen:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(seen.serving(soon()))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            one.says(state="serving", url="http://127.0.0.1:3")
        assert waiting.result().url == "http://127.0.0.1:3"


@pytest.mark.parametrize(("state", "limit"), [("down", 5.0), ("changing", 0.05)])
async def test_down_is_refused_at_once_and_changing_at_the_limit(state: str, limit: float) -> None:
    async with pod(state={"state": state, "url": None, "reason": "no GPU"}) as one, following(one) as seen:
        async with asyncio.timeout(1.0):
            with pytest.raises(EngineUnreachable, match=f"{state}: no GPU"):
                await seen.serving(soon(limit))


async def test_a_swap_is_asked_for_and_waited_for() -> None:
    async with pod() as one, following(one) as seen:

        def swaps(command: dict[str, Any]) -> bytes:
            one.says(state="changing")
            return b'{"ok":true}\n'

        one.answer = swaps
        async with asyncio.timeout(1.0):
            await seen.swap("glm", soon())
        assert one.got == [{"cmd": "swap", "model": "glm"}]


@pytest.mark.parametrize(("wait_s", "limit"), [(None, 50.0), (61.0, 500.0), (30.0, 5.0)])
async def test_a_swap_that_will_not_be_soon_is_refused_with_the_reason(wait_s: float | None, limit: float) -> None:
    line = f'{{"ok":false,"error":"dwell time, {wait_s} s left","wait_s":{wait_s or "null"}}}\n'.encode()
    async with pod(lambda _: line) as one:
        with pytest.raises(EngineUnreachable, match="glm is not loaded; the supervisor refused: dwell time"):
            await of(one.path).swap("glm", soon(limit))


async def test_a_short_dwell_time_is_waited_for() -> None:
    async with pod(lambda _: b'{"ok":false,"error":"dwell","wait_s":0.1}\n') as one:
        began = monotonic()
        await of(one.path).swap("glm", soon())
        assert 0.09 < monotonic() - began < 2.0


async def test_a_supervisor_that_restarts_is_asked_again_later_within_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "AGAIN_S", 0.01)
    await of("/nonexistent").swap("glm", soon())
    with pytest.raises(SupervisorUnreachable):
        await of("/nonexistent").swap("glm", soon(-1.0))
