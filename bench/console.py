"""What the screen costs with six agents at work, how soon it is there, and how soon its stop key acts.

uv run python -m bench.console [--seconds 30]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.terminal import Terminal
from control.demo import Work, agents_at_work
from control.local.provider import LocalProvider, Options
from control.models import Pod

PASSERELLE = [sys.executable, "-P", "-m", "console"]


def bare_start_s() -> float:
    """The floor: an interpreter that does nothing."""
    times = []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run([sys.executable, "-P", "-c", ""], check=True)
        times.append(time.monotonic() - began)
    return statistics.median(times)


def first_picture_s(pod: Pod, env: dict[str, str], tries: int = 5) -> float:
    """Median time from the start of `passerelle watch` to the first drawing of the overview."""
    times = []
    for _ in range(tries):
        with Terminal([*PASSERELLE, "watch", pod.id], env) as screen:
            times.append(screen.read_until("passerelle", 20))
    return statistics.median(times)


def cost(pod: Pod, env: dict[str, str], seconds: float) -> tuple[float, float, int]:
    """(share of one core, MB of memory, bytes drawn per second) once the screen has settled."""
    with Terminal([*PASSERELLE, "watch", pod.id], env) as screen:
        screen.read_for(8)
        cpu, drawn, began = screen.cpu_s(), len(screen.drawn), time.monotonic()
        screen.read_for(seconds)
        took = time.monotonic() - began
        return (screen.cpu_s() - cpu) / took, screen.rss_mb(), round((len(screen.drawn) - drawn) / took)


def stop_key_s(pod: Pod, env: dict[str, str], home: Path) -> float:
    """From Enter in the countdown to the provider's record that the stop was asked for."""
    record = home / "pods" / pod.id / "pod.json"
    with Terminal([*PASSERELLE, "watch", pod.id], env) as screen:
        screen.read_for(4)
        screen.type("s")
        screen.read_for(0.5)
        pressed = time.time()
        screen.type("\r")
        while True:
            asked = json.loads(record.read_text())["stop_asked_at"]
            if asked is not None:
                return float(asked) - pressed
            if time.time() - pressed > 10:
                raise TimeoutError("the stop was not sent within 10 s")
            screen.read_for(0.01)


def measure(seconds: float, home: Path) -> None:
    provider = LocalProvider(home)
    env = {"PASSERELLE_HOME": str(home)}
    pod = asyncio.run(provider.create(Options()))
    try:
        token = asyncio.run(provider.tokens(pod.id)).client
        floor = bare_start_s()
        quiet = first_picture_s(pod, env)
        print(f"first picture            {quiet:6.2f} s   {quiet / floor:5.1f} × a bare interpreter ({floor:.3f} s)")
        with agents_at_work(provider.logs(pod.id) / "agents.log", pod.url or "", token, Work()):
            share, memory, drawn = cost(pod, env, seconds)
            print(f"at 1 Hz with six agents  {share:6.2%} of one core   {memory:.0f} MB   {drawn} B/s drawn")
            print(f"stop key to stop call    {stop_key_s(pod, env, home) * 1000:6.1f} ms")
    finally:
        asyncio.run(provider.terminate(pod.id))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="passerelle-bench-") as home:
        measure(args.seconds, Path(home))


if __name__ == "__main__":
    main()
