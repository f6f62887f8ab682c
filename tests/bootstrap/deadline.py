"""Waiting for something real, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Return once it holds; AssertionError after so many seconds."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {seconds:g} s")


def wait_for(look: Callable[[], T | None], seconds: float = 30.0) -> T:
    """The first look that is not None or False; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds:g} s")
