"""Runs the phases over each server, one after the other, and prints one table.

uv run python -m bench.bridge [--quick] [--ccr NPM_PREFIX] [--litellm VENV] [--only NAME] [--phases chunk,ttft,…]

A peer that is not given is left out: bench/README.md says how to install them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.bridge import bodies, servers
from bench.bridge.servers import KEY, Server

PHASES = ("chunk", "ttft", "stall", "drop", "silent")
ENGINE_FIRST_S = 0.05  # what the engine itself takes to the first token in the TTFT phases
Row = dict[str, str]


@dataclass
class Bench:
    server: Server
    engine: int
    folder: Path
    quick: bool

    async def script(self, chunks: int, per_s: float = 0.0, first_s: float = 0.0) -> None:
        await self._ask("POST", "/script", {"chunks": chunks, "per_s": per_s, "first_s": first_s})

    async def open_streams(self) -> int:
        return int((await self._ask("GET", "/counts"))["open"])

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.engine}", trust_env=False) as client:
            return dict((await client.request(method, path, json=body)).json())

    async def start_load(self, size: str, streams: int, chunks: int, **more: Any) -> asyncio.subprocess.Process:
        server = self.server
        job = {
            "port": server.port,
            "path": server.path,
            "headers": {"x-api-key": KEY, "authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"},
            "body": str(self.folder / server.model / f"{server.dialect}-{size}.json"),
            "streams": streams,
            "requests": more.get("requests", streams),
            "chunks": chunks,
            "stagger_s": more.get("stagger_s", 0.0),
            "limit_s": more.get("limit_s", 60.0),
        }
        argv = (sys.executable, "-P", "-m", "bench.bridge.clients")
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
        assert child.stdin is not None
        child.stdin.write(json.dumps(job).encode())
        child.stdin.close()
        return child

    async def load(self, size: str, streams: int, chunks: int, **more: Any) -> dict[str, Any]:
        return await ended(await self.start_load(size, streams, chunks, **more))

    async def chunk(self) -> Row:
        """CPU of a streamed chunk: 32 streams at 36 tokens per second, their chunks spread evenly over time."""
        chunks = 108 if self.quick else 324
        await self.script(chunks, per_s=36)
        before = self.server.cpu_s()
        got = await self.load("small", 32, chunks, stagger_s=33 / 36 / 32)
        cpu_us = (self.server.cpu_s() - before) / max(1, got["chunks"]) * 1e6
        return {
            "CPU per chunk, 32 streams × 36 tok/s (µs)": f"{cpu_us:.0f}",
            "… relay delay p99 (ms)": f"{centile(got['latency_ms'], 99):.1f}",
            "… complete": f"{got['ok']}/32",
        }

    async def ttft(self) -> Row:
        """What is added to the first token, one request after the other."""
        row: Row = {}
        for size, most in (("400", 40), ("2000", 20)):
            count = most // 4 if self.quick else most
            await self.script(5, first_s=ENGINE_FIRST_S)
            await self.load(size, 1, 5, requests=2)
            before = self.server.cpu_s()
            got = await self.load(size, 1, 5, requests=count)
            cpu_ms = (self.server.cpu_s() - before) / max(1, got["requests"]) * 1e3
            added = centile(got["first_ms"], 50) - ENGINE_FIRST_S * 1e3
            row[f"TTFT added, {size} kB of history, median (ms)"] = f"{added:.1f}"
            row[f"… CPU per request, {size} kB (ms)"] = f"{cpu_ms:.1f}"
            row[f"… complete, {size} kB"] = f"{got['ok']}/{count}"
        return row

    async def stall(self) -> Row:
        """The gaps that 32 running streams see while 2 MB requests arrive one after another for 5 s."""
        await self.script(250, per_s=36)
        running = await self.start_load("small", 32, 250)
        await self._until_open(32)
        await self.script(5, first_s=ENGINE_FIRST_S)
        big = await self.load("2000", 1, 5, requests=1000, limit_s=5)
        got = await ended(running)
        return {
            "gap of 32 streams under 2 MB requests, p99 (ms)": f"{centile(got['gap_ms'], 99):.1f}",
            "… 2 MB requests served in 5 s": str(big["ok"]),
            "… complete under 2 MB requests": f"{got['ok']}/32",
        }

    async def drop(self) -> Row:
        """200 clients leave at once, in the middle of a stream and before its first token."""
        row: Row = {}
        for name, first_s in (("mid-stream", 0.0), ("silent", 120.0)):
            await self.script(10_000, per_s=2, first_s=first_s)
            load = await self.start_load("small", 200, 10_000, stagger_s=0.01, limit_s=100)
            await self._until_open(200)
            reached = await self.open_streams()
            load.kill()
            await load.wait()
            await asyncio.sleep(1)
            row[f"200 clients gone, {name}: upstreams open after 1 s"] = f"{await self.open_streams()} of {reached}"
        return row

    async def silent(self) -> Row:
        """300 requests to an engine that says nothing for 41 s: health meanwhile, pings, and all complete."""
        await self.script(5, first_s=41)
        load = await self.start_load("small", 300, 5, stagger_s=0.005, limit_s=90)
        await self._until_open(300)
        reached = await self.open_streams()
        times = []
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            for _ in range(20):
                began = time.monotonic()
                await client.get(f"http://127.0.0.1:{self.server.port}{self.server.health}")
                times.append((time.monotonic() - began) * 1e3)
                await asyncio.sleep(0.1)
        got = await ended(load)
        return {
            "health with 300 silent upstreams, worst of 20 (ms)": f"{max(times):.0f}",
            "… reached the engine": f"{reached}/300",
            "… pings per stream in 41 s": f"{got['pings'] / 300:.1f}",
            "… complete after the silence": f"{got['ok']}/300",
        }

    async def _until_open(self, streams: int, limit_s: float = 30.0) -> None:
        for _ in range(int(limit_s / 0.1)):
            if await self.open_streams() >= streams:
                return
            await asyncio.sleep(0.1)


async def ended(load: asyncio.subprocess.Process) -> dict[str, Any]:
    said, _ = await load.communicate()
    got: dict[str, Any] = json.loads(said)
    if got["error"]:
        print(f"    {got['error']}", file=sys.stderr)
    return got


def centile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else float("nan")


@contextlib.asynccontextmanager
async def running(server: Server, folder: Path) -> AsyncIterator[Server]:
    with (folder / f"{server.name}.log").open("wb") as log:
        await server.start(log)
        try:
            yield server
        finally:
            await server.stop()


async def measure(asked: argparse.Namespace, folder: Path) -> dict[str, Row]:
    table: dict[str, Row] = {}
    makers = {"floor": servers.floor, "passerelle": servers.passerelle}
    if asked.ccr:
        makers["claude-code-router"] = lambda port: servers.claude_code_router(asked.ccr, port)
    if asked.litellm:
        makers["litellm"] = lambda port: servers.litellm(asked.litellm, port)
    for name, make in makers.items():
        if asked.only and name not in asked.only:
            continue
        table[name] = {}
        for phase in asked.phases.split(","):
            engine_port = servers.free_port()  # each phase has processes of its own: a leak does not spoil the next
            async with running(servers.engine(engine_port), folder), running(make(engine_port), folder) as server:
                bodies.write(folder / server.model, server.model)
                bench = Bench(server, engine_port, folder, asked.quick)
                await bench.script(5)
                await bench.load("small", 4, 5, requests=12)
                row = await getattr(bench, phase)()
            print(f"{name}: {row}", file=sys.stderr)
            table[name] |= row
    return table


def print_table(table: dict[str, Row]) -> None:
    figures = list(dict.fromkeys(figure for row in table.values() for figure in row))
    print("| figure | " + " | ".join(table) + " |")
    print("|---" * (len(table) + 1) + "|")
    for figure in figures:
        print(f"| {figure} | " + " | ".join(row.get(figure, "–") for row in table.values()) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a third of the time; the figures spread more")
    parser.add_argument("--ccr", type=Path, help="npm prefix that holds @musistudio/claude-code-router")
    parser.add_argument("--litellm", type=Path, help="virtual environment that holds litellm[proxy]")
    parser.add_argument("--only", action="append", help="a server's name; repeat for more")
    parser.add_argument("--phases", default=",".join(PHASES), help="of " + ", ".join(PHASES))
    with tempfile.TemporaryDirectory(prefix="bench-bridge-") as folder:
        print_table(asyncio.run(measure(parser.parse_args(), Path(folder))))


if __name__ == "__main__":
    main()
