"""Real children for a test, and a test runner that is no supervisor afterwards."""

from __future__ import annotations

import asyncio
import ctypes
import signal
from collections.abc import AsyncIterator

import pytest

from bootstrap.processes import Children


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    loop = asyncio.get_running_loop()
    children = Children()
    yield children
    loop.remove_signal_handler(signal.SIGCHLD)
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # no longer PR_SET_CHILD_SUBREAPER
