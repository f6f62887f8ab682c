"""See a screen by hand: `python -m tests.console.show [state] [--svg FILE] [--size 120x40] [--theme light] [--keys l]`.

Without --svg it runs in this terminal, one snapshot a second, and stop, start and restart work as a slow provider's do.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from console.app import PasserelleApp, run
from control.models import PodId, PodState
from control.observe.snapshot import Snapshot
from tests.console.snapshots import AT, POD, STATES, ScriptedSession

FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich's SVG names fonts on a web host; the picture does without."""


@dataclass
class LiveSession:
    """One state, moving: its clock, its cost and its history advance, its figures breathe."""

    state: str
    pod_id: PodId = POD
    pod: PodState | None = None
    restarts: int = 1

    async def run(self, publish: Callable[[Snapshot], None]) -> None:
        began = time.time()
        while True:
            now = time.time()
            publish(self.at(now, now - began))
            await asyncio.sleep(1.0 - time.time() % 1.0)

    def at(self, now: float, elapsed: float) -> Snapshot:
        state = "stopped" if self.pod is PodState.EXITED else self.state
        snap = STATES[state](float(int(now)))
        spent = (snap.pod.cost_accrued or 0.0) + (snap.pod.cost_per_hour or 0.0) * elapsed / 3600
        wobble = 1 + 0.05 * (int(now) * 7 % 5 - 2)
        decode = snap.engine.decode_tok_s
        agents = tuple(
            replace(
                agent, age_s=(agent.age_s or 0) + elapsed, output_tokens=(agent.output_tokens or 0) + int(27 * elapsed)
            )
            if agent.tok_s and agent.phase != "idle"
            else agent
            for agent in snap.agents
        )
        pod = replace(snap.pod, cost_accrued=spent, state=self.pod or snap.pod.state)
        engine = replace(snap.engine, decode_tok_s=decode * wobble if decode else decode)
        bridge = replace(snap.bridge, restarts=self.restarts)
        return replace(snap, pod=pod, engine=engine, bridge=bridge, agents=agents)

    async def stop(self) -> None:
        await asyncio.sleep(1.5)
        self.pod = PodState.STOPPING
        asyncio.get_running_loop().call_later(4, setattr, self, "pod", PodState.EXITED)

    async def start(self) -> None:
        await asyncio.sleep(1.0)
        self.pod = None

    async def restart_bridge(self) -> None:
        await asyncio.sleep(1.0)
        asyncio.get_running_loop().call_later(2, setattr, self, "restarts", self.restarts + 1)


async def svg(state: str, size: tuple[int, int], theme: str | None, keys: list[str]) -> str:
    """The screen of a state after some keys, as an SVG."""
    app = PasserelleApp(ScriptedSession([STATES[state](AT)]), theme=theme)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if keys:
            await pilot.press(*keys)
            await pilot.pause()
        return FONTS.sub("", app.export_screenshot(title="passerelle"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", nargs="?", default="healthy", choices=sorted(STATES))
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--theme")
    parser.add_argument("--keys", default="", help="keys to press first, by comma")
    args = parser.parse_args()
    if args.svg:
        width, height = map(int, args.size.split("x"))
        keys = [key for key in args.keys.split(",") if key]
        args.svg.write_text(asyncio.run(svg(args.state, (width, height), args.theme, keys)), encoding="utf-8")
    else:
        outcome = run(LiveSession(args.state), theme=args.theme)
        sys.stdout.write(outcome.farewell + "\n")


if __name__ == "__main__":
    main()
