"""How long a reload of the bridge takes, and how many of 32 running streams it costs: real bootstrap and bridge.

uv run python bench/reload.py [STREAMS]
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

import httpx

from bootstrap import ctlsocket
from bootstrap.errors import Problem

CONFIG = '[serve]\nmodel = "a"\nconcurrency = 64\n[models.a]\nrepo = "sim/a"\n'
TOKENS = {"PASSERELLE_CLIENT_TOKEN": "client-token-0123", "PASSERELLE_OPERATOR_TOKEN": "operator-token-4567"}
ENGINE = (sys.executable, "-P", "-m", "control.local.engine")


async def stream(client: httpx.AsyncClient, started: asyncio.Event) -> tuple[str, int]:
    """How it ended, and the events that came."""
    body = {"model": "a", "max_tokens": 400, "stream": True, "messages": [{"role": "user", "content": "count " * 50}]}
    events, last = 0, ""
    async with client.stream("POST", "/v1/messages", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                events, last = events + 1, line.removeprefix("event: ")
                if last == "content_block_delta":
                    started.set()
    return last, events


async def measure(port: int, control: Path, streams: int) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {TOKENS['PASSERELLE_CLIENT_TOKEN']}", "anthropic-version": "2023-06-01"}
    limits = httpx.Limits(max_connections=streams + 8)
    address = f"http://127.0.0.1:{port}"
    async with (
        httpx.AsyncClient(base_url=address, headers=headers, timeout=120.0, limits=limits) as client,
        asyncio.TaskGroup() as tasks,
    ):
        starts = [asyncio.Event() for _ in range(streams)]
        running = [tasks.create_task(stream(client, started)) for started in starts]
        for started in starts:
            await started.wait()
        before = status(control)["bridge"]["pid"]
        began = time.monotonic()
        await asyncio.to_thread(ctlsocket.ask, control, {"cmd": "restart", "service": "bridge"})
        while (now := status(control)["bridge"])["state"] != "serving" or now["pid"] == before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        serving_s = time.monotonic() - began
        draining = status(control)["bridge"]["draining"]
        ended = [await each for each in running]
    lost = [how for how, _ in ended if how != "message_stop"]
    return {
        "streams": streams,
        "lost": len(lost),
        "new_bridge_serving_s": round(serving_s, 3),
        "old_bridges_draining_then": draining,
        "events_per_stream": sum(count for _, count in ended) // streams,
    }


def status(control: Path) -> dict[str, dict[str, object]]:
    told: dict[str, dict[str, object]] = ctlsocket.ask(control, {"cmd": "status"})["status"]
    return told


async def main(streams: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config, control = Path(folder, "pod.toml"), Path(folder, "b.sock")
        config.write_text(CONFIG, encoding="utf-8")  # noqa: ASYNC240
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        argv = ["run", "--config", str(config), "--state", folder, "--socket", str(control), "--port", str(port)]
        argv += [f"--vllm={word}" for word in ENGINE]
        env = {**os.environ, **TOKENS}
        pod = await asyncio.create_subprocess_exec(sys.executable, "-P", "-m", "bootstrap", *argv, env=env)
        try:
            while not up(control):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            print(json.dumps(await measure(port, control, streams)))
        finally:
            pod.terminate()
            await pod.wait()


def up(control: Path) -> bool:
    try:
        told = status(control)
    except Problem:
        return False
    return told["engine"]["state"] == told["bridge"]["state"] == "serving"


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 32))
