"""The clock that control's edges wait on, so that a test can hand in one of its own."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The real one."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
