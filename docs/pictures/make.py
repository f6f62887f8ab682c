"""Draws the pictures of the README anew: the real screen over a real demo, at three sizes.

uv run python docs/pictures/make.py [--seconds 100]
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from pathlib import Path

from console.app import PasserelleApp
from control.demo import Work, agents_at_work
from control.local.provider import LocalProvider, Options
from control.observe.session import PodSession

HERE = Path(__file__).parent
SIZES = ((120, 40), (80, 24), (160, 50))
SIM = ("--sim-kv-tokens", "420000", "--sim-prefill-tokens-per-s", "24000")
"""A card about as fast as an H200 at reading, with a KV cache that six agents outgrow."""


FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich's SVG names fonts on a web host; a reader's own monospaced font does."""


async def draw(session: PodSession, seconds: float) -> None:
    app = PasserelleApp(session)
    async with app.run_test(size=SIZES[0]) as pilot:
        await asyncio.sleep(seconds)
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            await asyncio.sleep(1.5)
            path = HERE / f"overview-{columns}x{rows}.svg"
            path.write_text(FONTS.sub("", app.export_screenshot(title="passerelle")), "utf-8")
            print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=100.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="passerelle-pictures-") as home:
        provider = LocalProvider(Path(home))
        pod = asyncio.run(provider.create(Options(sim=SIM)))
        try:
            token = asyncio.run(provider.tokens(pod.id)).client
            session = asyncio.run(PodSession.open(provider, pod))
            with agents_at_work(provider.logs(pod.id) / "agents.log", pod.url or "", token, Work()):
                asyncio.run(draw(session, args.seconds))
        finally:
            asyncio.run(provider.terminate(pod.id))


if __name__ == "__main__":
    main()
