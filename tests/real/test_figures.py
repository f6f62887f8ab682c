"""A real vLLM behind bootstrap and bridge, six real anthropic streams, and what `passerelle status` says of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from typing import Any

import pytest

from control.bench.agents import Load, Turn, run
from control.bench.conversation import Sizes
from tests.real.pods import MODEL, WINDOW, RealPod, at_rest, metrics

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

COUNTERS = ("prompt_computed", "prompt_cached", "generation", "preemptions", "cache_queries", "cache_hits")


def load(real: RealPod, agents: int, turns: int | None, sizes: Sizes, max_tokens: int) -> Load:
    return Load(
        url=real.url,
        token=real.client_token,
        model=MODEL,
        agents=agents,
        turns=turns,
        sizes=sizes,
        max_tokens=max_tokens,
        thinking=False,
    )


def test_it_says_what_engine_it_is(pod: RealPod) -> None:
    snap = pod.status()
    assert snap["engine"]["model"] == MODEL
    assert re.fullmatch(r"0\.32\.0.*", snap["engine"]["version"])
    assert snap["engine"]["simulated"] is False
    assert snap["engine"]["kv_tokens"] == 20_480
    assert snap["engine"]["max_model_len"] == WINDOW
    assert snap["pod"]["gpu_absent"] is True
    assert snap["config_serial"] == 7


async def test_rates_and_cache_hits_are_the_engines_own_to_the_token(pod: RealPod) -> None:
    """A short burst inside one window: rate × window must be exactly what the engine counted meanwhile."""
    engine_url = await pod.engine_url()
    before = await metrics(engine_url)
    looking = asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "console", "status", pod.pod_id, "--json", "--seconds", "13",
        stdout=asyncio.subprocess.PIPE, env=os.environ | {"PASSERELLE_HOME": str(pod.home)},
    )  # fmt: skip
    process = await looking
    await asyncio.sleep(2.5)
    turns: list[Turn] = []
    burst = load(pod, agents=6, turns=1, sizes=Sizes(first=400, limit=800, result=(50, 60)), max_tokens=12)
    await run(burst, turns.append)
    out, _ = await process.communicate()
    after = await metrics(engine_url)
    assert [turn.stop for turn in turns if not turn.ok] == []
    engine = json.loads(out)["engine"]

    def grown(name: str) -> float:
        old, new = getattr(before.counters, name), getattr(after.counters, name)
        assert old is not None
        assert new is not None
        return float(new - old)

    window = engine["prefill_window_s"]
    assert grown("prompt_computed") > 0
    assert round(engine["prefill_tok_s"] * window, 3) == grown("prompt_computed")
    assert round(engine["cached_tok_s"] * window, 3) == grown("prompt_cached")
    assert engine["cache_hit_rate"] == pytest.approx(grown("cache_hits") / grown("cache_queries"))
    assert engine["totals"]["generation"] == after.counters.generation
    assert grown("generation") == sum(turn.output_tokens for turn in turns)


async def test_six_streams_on_a_small_cache(pod: RealPod) -> None:
    """Six prompts of about 7 300 of its tokens: two fit, so four wait for as long as those two decode.

    Under load every figure lies between the engine's own just before and just after; at rest they are equal.
    """
    sizes, engine_url = Sizes(first=5_500, limit=5_600, result=(10, 20)), await pod.engine_url()
    turns: list[Turn] = []
    seen: list[dict[str, Any]] = []

    async def look() -> None:
        for _ in range(5):
            before = await metrics(engine_url)
            snap = await asyncio.to_thread(pod.status, 3.2)
            after = await metrics(engine_url)
            totals = snap["engine"]["totals"]
            for name in COUNTERS:
                assert getattr(before.counters, name) <= totals[name] <= getattr(after.counters, name), name
            seen.append(snap)

    async with asyncio.TaskGroup() as tasks:
        agents = tasks.create_task(run(load(pod, agents=6, turns=None, sizes=sizes, max_tokens=800), turns.append))
        await look()
        agents.cancel()

    assert [turn.stop for turn in turns if not turn.ok] == []
    assert len(turns) >= 6
    engines = [snap["engine"] for snap in seen]
    assert max(engine["running"] for engine in engines) >= 2
    assert max(engine["waiting"]["capacity"] for engine in engines) > 0
    assert all(engine["waiting"]["deferred"] == 0 for engine in engines)
    assert any("kv-capacity" in {f["id"] for f in snap["findings"]} for snap in seen)
    assert 0.3 < max(engine["kv_usage"] for engine in engines) <= 1
    assert max(engine["decode_tok_s"] or 0 for engine in engines) > 0
    assert max(engine["prefill_tok_s"] or 0 for engine in engines) > 0
    assert any(len({(a["session"], a["agent"]) for a in snap["agents"]}) >= 6 for snap in seen)
    for snap in seen:
        assert snap["bridge"]["orphans"] == 0
        assert snap["bridge"]["upstreams"] <= snap["bridge"]["turns"], "a turn that ends closes its upstream first"
    assert max(snap["bridge"]["upstreams"] for snap in seen) >= 3

    await at_rest(engine_url)
    snap = await asyncio.to_thread(pod.status)
    own = await metrics(engine_url)
    assert (snap["engine"]["running"], snap["engine"]["waiting"]) == (0, {"capacity": 0, "deferred": 0})
    assert snap["engine"]["kv_usage"] == own.kv_usage
    for name in COUNTERS:
        assert snap["engine"]["totals"][name] == getattr(own.counters, name), name
    assert (snap["bridge"]["turns"], snap["bridge"]["upstreams"]) == (0, 0)
