"""A real vLLM in the life of a pod: the bridge reloaded, the engine changed and its model swapped, and no turn lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from control.local import processes
from control.local.provider import LocalProvider
from control.models import PodId, PodState
from tests.real.pods import MODEL, OTHER, RealPod
from tests.real.streams import Stream, ask, hello

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


@asynccontextmanager
async def agents_at_work(pod: RealPod, model: str, count: int = 3) -> AsyncIterator[list[Stream]]:
    """Agents that stream turn after turn until the block is left; all their turns, whole or not."""
    turns, over = list[Stream](), asyncio.Event()

    async def agent(number: int) -> None:
        while not over.is_set():
            turns.append(Stream())
            body = hello(f"Agent {number}, turn {len(turns)}.", model, max_tokens=1500)
            await ask(pod.url, pod.client_token, turns[-1], **body)

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(agent(number))
        await _until(lambda: sum("content_block_delta" in turn.kinds for turn in turns) >= count)
        yield turns
        over.set()


async def _until(condition: Callable[[], bool], within_s: float = 100.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - nothing signals what another process does
            await asyncio.sleep(0.02)


def was_held(turn: Stream) -> bool:
    return turn.whole and turn.kinds[:2] == ["ping", "ping"]


async def test_a_publish_reloads_the_bridge_and_loses_no_turn(pod: RealPod) -> None:
    before = await pod.supervisor()
    async with agents_at_work(pod, MODEL) as turns:
        done = await asyncio.to_thread(pod.publish, mode="native")
        assert done.returncode == 0, done.stderr
        after = await pod.supervisor()
        assert after.applied is not None
        assert after.applied.plan == "reload bridge"
        assert (after.bridge.pid == before.bridge.pid, after.engine.pid == before.engine.pid) == (False, True)
        so_far = len(turns)
        await _until(lambda: len(turns) > so_far and all(turn.ended for turn in turns[:so_far]))
    assert all(turn.whole for turn in turns)
    ids = [event["message"]["id"] for turn in turns for event in turn.events if event["type"] == "message_start"]
    assert {made.partition("-")[0] == "chatcmpl" for made in ids} == {False, True}, "translated, then the engine's own"
    assert (await pod.report()).mode == "native"


async def test_a_request_for_the_other_model_swaps_it_in_behind_the_streams(pod: RealPod) -> None:
    swapped, streams = Stream(), [Stream(), Stream()]
    async with asyncio.TaskGroup() as tasks:
        for number, stream in enumerate(streams):
            body = hello(f"Write number {number}.", max_tokens=2000)
            tasks.create_task(ask(pod.url, pod.client_token, stream, **body))
        await _until(lambda: all("content_block_delta" in stream.kinds for stream in streams))
        asked = hello(model=OTHER, max_tokens=8)
        await asyncio.wait_for(ask(pod.url, pod.client_token, swapped, **asked), 200)
    assert all(stream.whole for stream in streams)
    assert was_held(swapped), swapped
    status = await pod.supervisor()
    assert (status.model, status.engine.state) == ("other", "serving")
    assert status.swap is not None
    assert (status.swap.model, status.swap.came_from, status.swap.error) == ("other", "tiny", None)
    async with asyncio.timeout(20):  # its bridge looks at who answers every two seconds
        while (await pod.report()).engine.models != (OTHER,):  # noqa: ASYNC110 - it says nothing by itself
            await asyncio.sleep(0.2)


async def test_a_publish_that_restarts_engine_and_bridge_loses_no_turn(pod: RealPod) -> None:
    before = await pod.supervisor()
    async with agents_at_work(pod, OTHER) as turns:
        done = await asyncio.to_thread(pod.publish, model="other", batched_tokens=512, mode="translate")
        assert done.returncode == 0, done.stderr
        await _until(lambda: any(was_held(turn) for turn in turns), 200)
    assert all(turn.whole for turn in turns)
    after = await pod.supervisor()
    assert after.applied is not None
    assert after.applied.plan == "restart engine"
    assert after.engine.command[after.engine.command.index("--max-num-batched-tokens") + 1] == "512"
    assert (after.bridge.pid == before.bridge.pid, after.engine.pid == before.engine.pid) == (False, False)


def test_stop_is_verified_and_leaves_no_process(pod: RealPod) -> None:
    family = processes.family(processes.mark(asyncio.run(pod.supervisor()).pid))
    assert len(family) >= 4, "supervisor, bridge, vLLM's API server, its EngineCore"
    done = pod.passerelle("pod", "stop", pod.pod_id)
    assert done.returncode == 0, done.stderr
    assert "EXITED, verified" in done.stdout
    assert [process for process in family if processes.alive(process)] == []
    assert asyncio.run(LocalProvider(pod.home).get(PodId(pod.pod_id))).state is PodState.EXITED
