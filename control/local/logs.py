"""The log of an embedded pod: the file that its supervisor writes, read from the end and then as it grows."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

from control.clock import Clock
from control.models import PodLogLine

LOOK_EVERY_S = 0.5


async def lines(path: Path, tail: int, follow: bool, clock: Clock) -> AsyncIterator[PodLogLine]:
    """A file that is not there is an empty one; one that was replaced or cut short is read from its beginning."""
    known, at = _read(path, 0)
    for line in deque(known, maxlen=tail):
        yield _line(path, line)
    while follow:
        await clock.sleep(LOOK_EVERY_S)
        new, at = _read(path, at)
        for line in new:
            yield _line(path, line)


def _read(path: Path, begin: int) -> tuple[list[str], int]:
    """The whole lines after `begin`, and where they end: a line that is being written is left for later."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < begin:
                begin = 0
            file.seek(begin)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8", "replace").split("\n")[:-1], begin + len(whole)


def _line(path: Path, text: str) -> PodLogLine:
    return PodLogLine("", path.stem, text)
