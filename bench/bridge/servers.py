"""What is measured, each as the process tree that its users start: its CPU, its memory, its end."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx
import psutil

KEY = "sk-bench-loopback-only-0123456789abcdef0123456789abcdef"
START_LIMIT_S = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """`path` takes requests of `dialect` for `model`; `health` answers 200 once it serves."""

    name: str
    argv: list[str]
    port: int
    dialect: str = "anthropic"
    path: str = "/v1/messages"
    health: str = "/healthz"
    model: str = "m"
    env: dict[str, str] = field(default_factory=dict)

    async def start(self, log: IO[bytes]) -> None:
        environ = {**os.environ, **self.env}
        self._child = await asyncio.create_subprocess_exec(*self.argv, env=environ, stdout=log, stderr=log)
        self._root = psutil.Process(self._child.pid)
        until = time.monotonic() + START_LIMIT_S
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            while time.monotonic() < until and self._child.returncode is None:
                try:
                    if (await client.get(f"http://127.0.0.1:{self.port}{self.health}")).status_code < 500:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.1)
        raise RuntimeError(f"{self.name} does not answer at {self.health}: see {log.name}")

    async def stop(self) -> None:
        tree = self._tree()
        for process in tree:
            process.terminate()
        _, left = await asyncio.to_thread(psutil.wait_procs, tree[1:], 4)
        if self._child.returncode is None:
            left.append(self._root)
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        await self._child.wait()

    def cpu_s(self) -> float:
        times = [process.cpu_times() for process in self._tree()]
        return sum(one.user + one.system + one.children_user + one.children_system for one in times)

    def rss_mb(self) -> float:
        return sum(process.memory_info().rss for process in self._tree()) / 1e6

    def _tree(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]


def engine(port: int) -> Server:
    return Server("engine", [sys.executable, "-P", "-m", "bench.bridge.engine", str(port)], port, health="/health")


def floor(engine_port: int) -> Server:
    port = free_port()
    argv = [sys.executable, "-P", "-m", "bench.bridge.floor", str(port), str(engine_port)]
    return Server("floor", argv, port, dialect="openai", path="/v1/chat/completions")


def passerelle(engine_port: int) -> Server:
    port, upstream = free_port(), f"http://127.0.0.1:{engine_port}"
    serve = ["--listen", f"127.0.0.1:{port}", "--upstream", upstream, "--model", "m"]
    tokens = {"PASSERELLE_CLIENT_TOKEN": KEY, "PASSERELLE_OPERATOR_TOKEN": KEY + "-operator"}
    return Server("passerelle", [sys.executable, "-P", "-m", "bridge", *serve], port, env=tokens)


def claude_code_router(prefix: Path, engine_port: int) -> Server:
    """`prefix` is where `npm install --prefix` has put @musistudio/claude-code-router."""
    port, home = free_port(), Path(tempfile.mkdtemp(prefix="ccr-"))
    (home / ".claude" / "projects").mkdir(parents=True)
    (home / ".claude-code-router").mkdir()
    url = f"http://127.0.0.1:{engine_port}/v1/chat/completions"
    config = {
        **{"PORT": port, "HOST": "127.0.0.1", "LOG": False, "API_TIMEOUT_MS": 600_000},
        "Providers": [{"name": "vllm", "api_base_url": url, "api_key": "x", "models": ["m"]}],
        "Router": dict.fromkeys(("default", "background", "think", "longContext"), "vllm,m"),
    }
    (home / ".claude-code-router" / "config.json").write_text(json.dumps(config))
    program = prefix / "node_modules/@musistudio/claude-code-router/dist/cli.js"
    env = {"HOME": str(home), "SERVICE_PORT": str(port)}
    argv = ["node", str(program), "start"]
    return Server("claude-code-router", argv, port, health="/health", model="claude-sonnet-4-5", env=env)


def litellm(venv: Path, engine_port: int) -> Server:
    """`venv` holds litellm[proxy]."""
    port, home = free_port(), Path(tempfile.mkdtemp(prefix="litellm-"))
    params = {"model": "hosted_vllm/m", "api_base": f"http://127.0.0.1:{engine_port}/v1", "api_key": "x"}
    config = {
        "model_list": [{"model_name": "m", "litellm_params": params}],
        "litellm_settings": {"telemetry": False},
        "general_settings": {"master_key": KEY},
    }
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    serve = ["--config", str(home / "config.yaml"), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "HOME": str(home)}
    return Server("litellm", [str(venv / "bin/litellm"), *serve], port, health="/health/liveliness", env=env)
