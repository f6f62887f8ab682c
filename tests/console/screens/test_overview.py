"""The overview's parts by size: what gives way, in which order, and that everything else keeps its place."""

from __future__ import annotations

import pytest

from tests.console.pane import lines
from tests.console.snapshots import capacity
from tests.console.test_app import desk

PARTS = {
    (60, 20): {"header", "verdict", "finding", "money", "engine", "connections", "agents", "log"},
    (80, 24): {"header", "verdict", "finding", "money", "engine", "connections", "agents", "log"},
    (80, 40): {"header", "verdict", "finding", "money", "engine", "charts", "connections", "agents", "log"},
    (120, 24): {"header", "verdict", "finding", "money", "engine", "connections", "agents", "log"},
    (120, 40): {"header", "verdict", "finding", "money", "engine", "charts", "connections", "agents", "log"},
    (160, 50): {"header", "verdict", "finding", "money", "engine", "charts", "connections", "agents", "log"},
    (59, 40): {"too-small"},
    (120, 19): {"too-small"},
}


async def test_parts_by_size() -> None:
    async with desk() as d:
        for size, parts in PARTS.items():
            await d.pilot.resize_terminal(*size)
            await d.settle()
            shown = {part.id for part in d.app.screen.query("Part") if part.region.area and part.id != "bar"}
            assert shown == parts, size


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_nothing_moves_when_the_state_changes(size: tuple[int, int]) -> None:
    """A finding that comes, waits that begin: every title and label stays in its cell."""
    async with desk(size=size) as d:
        before = lines(d.app)
        await d.show(capacity())
        after = lines(d.app)
        for word in ("provider", "scrape", "running", "decode", "waiting", "clients", "session", "phase", "spent"):
            assert [line.find(word) for line in before[:12]] == [line.find(word) for line in after[:12]], word
