"""Part repaints the lines that changed, and a line is exactly as wide as the widget."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from console.rows import Row, Rows
from console.widgets.part import Part
from control.observe.snapshot import Snapshot
from tests.console.pane import lines
from tests.console.snapshots import healthy


class Three(Part):
    DEFAULT_CSS = "Three { height: 3; width: 20; }"

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return tuple((("plain", f"{name} {snap.config_serial if name == 'b' else ''}"),) for name in "abc")


class Host(App[None]):
    def compose(self) -> ComposeResult:
        yield Three()


def one(words: str) -> Row:
    return (("plain", words),)


async def test_lines_are_drawn_and_only_changed_ones_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Host()
    async with app.run_test(size=(30, 5)) as pilot:
        part = app.query_one(Three)
        part.snap = healthy()
        await pilot.pause()
        assert lines(app)[:3] == ["a", "b 41", "c"]
        marked: list[Region] = []

        def refresh(_: Part, *regions: Region, **how: bool) -> None:
            marked.extend(regions)

        monkeypatch.setattr(Three, "refresh", refresh)
        part.show((one("a "), one("b 42"), one("c ")))
        assert marked == [Region(0, 1, 20, 1)]
        marked.clear()
        part.show((one("a "),))
        assert [region.y for region in marked] == [1, 2]


async def test_a_row_that_is_too_long_is_cut_at_the_edge() -> None:
    app = Host()
    async with app.run_test(size=(30, 5)) as pilot:
        part = app.query_one(Three)
        part.snap = healthy()
        await pilot.pause()
        part.show((one("x" * 50),))
        assert [part.render_line(y).cell_length for y in range(3)] == [20, 20, 20]
