"""One real pod for all tests here: bootstrap, bridge and a vLLM on CPU, by the doors that a user has."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from bootstrap.report import Status
from bridge.report import PodReport
from control.errors import Unreachable
from control.local.provider import LocalProvider
from control.models import PodId, Target
from control.observe import scrape
from control.observe.scrape import EngineMetrics
from control.observe.sources import read
from control.podlink import PodLink

MODEL, OTHER = "tiny-qwen", "tiny-other"
WINDOW = 8192
REPORT_WITHIN_S = 20.0
STARTING = ("unknown", "preflight", "starting", "downloading", "loading")

CONFIG = """
serial = {serial}

[serve]
model = "{model}"
context = 8192
concurrency = 16
batched_tokens = {batched_tokens}
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

[models.other]
repo = "{repo}"
names = ["tiny-other"]
tool_parser = "hermes"

[bridge]
mode = "{mode}"
ping_seconds = 2

[swap]
on_request = true
dwell_minutes = 0.01
"""
"""160 blocks of 128 tokens: 20 480 tokens of KV cache, so that six growing prompts of up to 6 500 do not fit."""

DEFAULTS = {"serial": 7, "model": "tiny", "batched_tokens": 1024, "mode": "translate"}


class RealPod:
    """The running pod."""

    def __init__(self, home: Path, pod_id: str, url: str, client_token: str) -> None:
        self.home, self.pod_id, self.url, self.client_token = home, pod_id, url, client_token

    def passerelle(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return passerelle(self.home, *argv)

    def status(self, seconds: float = 2.2) -> dict[str, Any]:
        done = self.passerelle("status", self.pod_id, "--json", "--seconds", str(seconds))
        assert done.returncode in (0, 1), done.stderr + done.stdout
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def publish(self, **changes: object) -> subprocess.CompletedProcess[str]:
        """Publish the configuration with these values of CONFIG, and wait until it is in force."""
        file = self.home / "published.toml"
        file.write_text(config(**changes), encoding="utf-8")
        return self.passerelle("config", "publish", str(file), "--pod", self.pod_id, "--wait", "100")

    async def supervisor(self) -> Status:
        status = read(await self.report()).status
        assert status is not None
        return status

    async def report(self) -> PodReport:
        tokens = await LocalProvider(self.home).tokens(PodId(self.pod_id))
        async with PodLink(Target(self.url, tokens.operator)) as link, asyncio.timeout(REPORT_WITHIN_S):
            while True:
                with contextlib.suppress(Unreachable):  # two cores are little for an engine that starts
                    return await link.report()

    async def engine_url(self) -> str:
        """Of the engine itself, on its own port; another one after each of its starts."""
        argv = (await self.supervisor()).engine.command
        return f"http://127.0.0.1:{argv[argv.index('--port') + 1]}"

    def engine_core(self) -> psutil.Process:
        """vLLM computes in a process of its own."""
        pid = asyncio.run(self.supervisor()).engine.pid
        assert pid is not None
        return next(one for one in psutil.Process(pid).children(recursive=True) if "EngineCore" in _named(one))

    def wait_serving(self, within_s: float = 400.0) -> None:
        """Cold, vLLM takes over a minute; its state is one of a start, and its verdict a warning, until then."""
        deadline, state = time.monotonic() + within_s, ""
        while time.monotonic() < deadline:
            snap = self.status(0.5)
            if (state := snap["engine"]["state"]) == "serving":
                return
            assert state in STARTING, (state, snap["findings"], snap["log"])
            time.sleep(1)
        raise TimeoutError(f"the engine did not serve: {state}")


async def metrics(engine_url: str) -> EngineMetrics:
    """What the engine says of itself."""
    async with httpx.AsyncClient(trust_env=False, timeout=10, verify=False) as http:
        return scrape.parse((await http.get(f"{engine_url}/metrics")).text)


async def at_rest(engine_url: str, within_s: float = 5.0) -> None:
    """Until the engine says that nobody runs and nobody waits: no look that begins later may see another thing."""
    began = time.monotonic()
    async with asyncio.timeout(within_s + 20.0):
        while True:
            looked = time.monotonic()
            if (now := await load(engine_url)) == (0, 0):
                return
            assert looked - began < within_s, now


async def load(engine_url: str) -> tuple[int, int]:
    """(running, waiting) requests of the engine."""
    now = await metrics(engine_url)
    assert now.running is not None
    assert now.waiting is not None
    return now.running, now.waiting


def config(**changes: object) -> str:
    return CONFIG.format(**{**DEFAULTS, "repo": os.environ["PASSERELLE_TEST_MODEL"], **changes})


def passerelle(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PASSERELLE_HOME": str(home), "PASSERELLE_KEYRING": "off"}
    command = [sys.executable, "-P", "-m", "console", *argv]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def running(home: Path) -> Iterator[RealPod]:
    """A pod that serves; nothing of it is left afterwards."""
    file = home / "pod.toml"
    file.write_text(config(), encoding="utf-8")
    vllm = os.environ["PASSERELLE_TEST_VLLM"]
    made = passerelle(home, "pod", "create", "--engine", "vllm", "--vllm", vllm, "--config", str(file), "--json")
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    provider, pod_id = LocalProvider(home), PodId(found["id"])
    pod = RealPod(home, found["id"], found["url"], asyncio.run(provider.tokens(pod_id)).client)
    try:
        pod.wait_serving()
        yield pod
    finally:
        asyncio.run(provider.terminate(pod_id))


def _named(process: psutil.Process) -> str:
    return f"{process.name()} {' '.join(process.cmdline())}"
