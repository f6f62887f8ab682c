"""A real vLLM on CPU behind bootstrap and bridge, six real anthropic streams, and what `passerelle status` says of it.

Needs PASSERELLE_TEST_VLLM and PASSERELLE_TEST_MODEL (.ci/install-vllm DIR prints them). One engine for the module.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bootstrap.report import Status
from bridge.report import PodReport
from control.bench.agents import Load, Turn, run
from control.bench.conversation import Sizes
from control.local.provider import LocalProvider
from control.models import PodId, PodState, Target
from control.observe import scrape
from control.observe.scrape import EngineMetrics
from control.observe.session import PodSession
from control.podlink import PodLink

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

MODEL = "tiny-qwen"

CONFIG = """
serial = 7

[serve]
model = "tiny"
context = 8192
concurrency = 16
batched_tokens = 1024
prefix_caching = true
num_gpu_blocks = 160
extra_args = ["--dtype", "bfloat16", "--enforce-eager"]
env = {{ VLLM_CPU_KVCACHE_SPACE = "1", VLLM_HOST_IP = "127.0.0.1", VLLM_LOOPBACK_IP = "127.0.0.1", \
HF_HUB_OFFLINE = "1", TRANSFORMERS_OFFLINE = "1", VLLM_NO_USAGE_STATS = "1", \
DO_NOT_TRACK = "1", VLLM_LOGGING_COLOR = "0" }}

[models.tiny]
repo = "{repo}"
names = ["tiny-qwen", "claude-tiny"]
reasoning_parser = "qwen3"
tool_parser = "hermes"
"""
"""160 blocks of 128 tokens: 20 480 tokens of KV cache, so that six growing prompts of up to 6 500 do not fit."""


STARTING = ("unknown", "preflight", "starting", "downloading", "loading")


class RealPod:
    """The running pod, by the same doors that a user has."""

    def __init__(self, home: Path, pod_id: str, url: str, client_token: str) -> None:
        self.home, self.pod_id, self.url, self.client_token = home, pod_id, url, client_token
        self.engine_port: str | None = None

    def passerelle(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return passerelle(self.home, *argv)

    def status(self, seconds: float = 2.2) -> dict[str, Any]:
        done = self.passerelle("status", self.pod_id, "--json", "--seconds", str(seconds))
        assert done.returncode in (0, 1), done.stderr + done.stdout
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    async def supervisor(self) -> Status:
        session = await PodSession.open(LocalProvider(self.home), PodId(self.pod_id))
        return await session.supervisor_status()

    async def report(self) -> PodReport:
        tokens = await LocalProvider(self.home).tokens(PodId(self.pod_id))
        async with PodLink(Target(self.url, tokens.operator)) as link:
            return await link.report()

    def engine_metrics(self) -> EngineMetrics:
        """The engine's own /metrics, asked directly on its own port."""
        if self.engine_port is None:
            argv = asyncio.run(self.supervisor()).engine.command
            self.engine_port = argv[argv.index("--port") + 1]
        return scrape.parse(httpx.get(f"http://127.0.0.1:{self.engine_port}/metrics", trust_env=False).text)


def passerelle(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PASSERELLE_HOME": str(home)}
    command = [sys.executable, "-P", "-m", "console", *argv]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPod]:
    vllm, model = os.environ["PASSERELLE_TEST_VLLM"], os.environ["PASSERELLE_TEST_MODEL"]
    home = tmp_path_factory.mktemp("home")
    config = home / "pod.toml"
    config.write_text(CONFIG.format(repo=model))
    made = passerelle(home, "pod", "create", "--engine", "vllm", "--vllm", vllm, "--config", str(config), "--json")
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    provider = LocalProvider(home)
    token = asyncio.run(provider.tokens(PodId(found["id"]))).client
    real = RealPod(home, found["id"], found["url"], token)
    try:
        _wait_serving(real)
        yield real
    finally:
        asyncio.run(provider.terminate(PodId(found["id"])))


def _wait_serving(real: RealPod) -> None:
    """Cold, vLLM takes over a minute; its state is "starting" and its verdict a warning until then."""
    deadline = time.monotonic() + 400
    states = []
    while time.monotonic() < deadline:
        snap = real.status(0.5)
        states.append(snap["engine"]["state"])
        if states[-1] == "serving":
            assert set(states) <= {*STARTING, "serving"}, states
            return
        assert states[-1] in STARTING, (states[-1], snap["findings"], snap["log"])
        time.sleep(1)
    raise TimeoutError(f"the engine did not serve: {states[-5:]}")


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
    assert snap["engine"]["max_model_len"] == 8192
    assert snap["pod"]["gpu_absent"] is True
    assert snap["config_serial"] == 7


async def test_rates_and_cache_hits_are_the_engines_own_to_the_token(pod: RealPod) -> None:
    """A short burst inside one window: rate × window must be exactly what the engine counted meanwhile."""
    before = await asyncio.to_thread(pod.engine_metrics)
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
    after = await asyncio.to_thread(pod.engine_metrics)
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
    sizes = Sizes(first=5_500, limit=5_600, result=(10, 20))
    turns: list[Turn] = []
    seen: list[dict[str, Any]] = []

    async def look() -> None:
        for _ in range(8):
            before = await asyncio.to_thread(pod.engine_metrics)
            snap = await asyncio.to_thread(pod.status, 3.2)
            after = await asyncio.to_thread(pod.engine_metrics)
            totals = snap["engine"]["totals"]
            for name in (
                "prompt_computed",
                "prompt_cached",
                "generation",
                "preemptions",
                "cache_queries",
                "cache_hits",
            ):
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
    assert any(len({(a["session"], a["agent"]) for a in snap["agents"]}) == 6 for snap in seen)
    for snap in seen:
        assert snap["bridge"]["orphans"] == 0
        assert snap["bridge"]["upstreams"] <= snap["bridge"]["turns"], "a turn that ends closes its upstream first"
    assert max(snap["bridge"]["upstreams"] for snap in seen) >= 3

    await at_rest(pod)
    snap = await asyncio.to_thread(pod.status)
    own = await asyncio.to_thread(pod.engine_metrics)
    assert (snap["engine"]["running"], snap["engine"]["waiting"]) == (0, {"capacity": 0, "deferred": 0})
    assert snap["engine"]["kv_usage"] == own.kv_usage
    for name in ("prompt_computed", "prompt_cached", "generation", "preemptions", "cache_queries", "cache_hits"):
        assert snap["engine"]["totals"][name] == getattr(own.counters, name), name
    assert (snap["bridge"]["turns"], snap["bridge"]["upstreams"]) == (0, 0)


async def at_rest(pod: RealPod) -> None:
    """Wait until the engine says that nothing runs; 5 s at most."""
    async with asyncio.timeout(5):
        running: int | None = 1
        while running:
            running = (await asyncio.to_thread(pod.engine_metrics)).running


async def test_clients_that_leave_free_the_engine(pod: RealPod) -> None:
    """Twelve leave at their first token. A model of random weights may end at any token, and one this small may have
    sent its whole answer before the bridge is told, so some are counted as answered.
    """
    import anthropic

    before = (await pod.report()).totals
    async with anthropic.AsyncAnthropic(base_url=pod.url, auth_token=pod.client_token, api_key=None) as client:

        async def leave_at_the_first_token(number: int) -> None:
            asked: list[anthropic.types.MessageParam] = [{"role": "user", "content": f"Write for long, {number}."}]
            async with client.messages.stream(model=MODEL, max_tokens=6000, messages=asked) as stream:
                async for event in stream:
                    if event.type == "content_block_delta":
                        return

        async with asyncio.TaskGroup() as tasks:
            for number in range(12):
                tasks.create_task(leave_at_the_first_token(number))
    await at_rest(pod)
    left = await pod.report()
    assert left.totals["turns"] - before["turns"] == 12
    assert left.totals["client_gone"] > before["client_gone"]
    assert left.totals["output_tokens"] - before["output_tokens"] < 12 * 1000, "nobody's 6000 tokens were computed"
    assert (left.connections.upstreams, left.connections.orphans, left.turns) == (0, 0, ())


async def test_thinking_and_count_tokens(pod: RealPod) -> None:
    import anthropic

    async with anthropic.AsyncAnthropic(base_url=pod.url, auth_token=pod.client_token, api_key=None) as client:
        message = await client.messages.create(
            model="claude-tiny",
            max_tokens=40,
            thinking={"type": "adaptive"},
            messages=[{"role": "user", "content": "Think."}],
        )
        counted = await client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "Think."}])
    assert message.content
    assert message.usage.output_tokens == 40
    assert message.stop_reason == "max_tokens"
    assert counted.input_tokens == message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def test_a_killed_engine_core_is_seen_and_comes_back(pod: RealPod) -> None:
    import psutil

    supervisor = asyncio.run(pod.supervisor())
    assert supervisor.engine.pid is not None
    cores = [p for p in psutil.Process(supervisor.engine.pid).children(recursive=True) if "EngineCore" in _name(p)]
    assert cores, "vLLM's EngineCore runs as a process of its own"
    cores[0].kill()
    deadline = time.monotonic() + 60
    states: list[str] = []
    while not states or states[-1] in ("serving", "down"):
        done = pod.passerelle("status", pod.pod_id, "--json", "--seconds", "0.5")
        states.append(json.loads(done.stdout)["engine"]["state"])
        assert time.monotonic() < deadline, states
    assert states[-1] in ("starting", "backoff")
    _wait_serving(pod)
    assert pod.status()["engine"]["restarts"] == 1


def _name(process: Any) -> str:
    return f"{process.name()} {' '.join(process.cmdline())}"


def test_stop_is_verified_and_leaves_no_process(pod: RealPod) -> None:
    from control.local import processes

    family = processes.family(processes.mark(asyncio.run(pod.supervisor()).pid))
    assert len(family) >= 4, "supervisor, bridge, vLLM's API server, its EngineCore"
    done = pod.passerelle("pod", "stop", pod.pod_id)
    assert done.returncode == 0, done.stderr
    assert "EXITED, verified" in done.stdout
    assert [process for process in family if processes.alive(process)] == []
    assert asyncio.run(LocalProvider(pod.home).get(PodId(pod.pod_id))).state is PodState.EXITED
