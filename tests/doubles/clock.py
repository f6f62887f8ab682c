"""A clock that moves only when it is told to, or when somebody sleeps on it."""

from __future__ import annotations

import asyncio

from control.clock import Clock

BEGIN = 1_796_000_000.0
"""2026-11-30, so that a time of the double's looks like one."""


class ManualClock(Clock):
    def __init__(self, now: float = BEGIN) -> None:
        self._now = now
        self.slept: list[float] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += seconds
        await asyncio.sleep(0)

    def pass_(self, seconds: float) -> None:
        self._now += seconds
