"""Part: a widget that draws rows of (role, text) from a Snapshot, and repaints a line only when that line changed."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from console.rows import ROLES, Row, Rows
from control.observe.snapshot import Snapshot


class Part(Widget):
    """One part of a screen. A subclass says what its rows are; colours come from the roles in app.tcss."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role-{role}" for role in ROLES}
    ALLOW_SELECT = False

    snap: reactive[Snapshot | None] = reactive(None, repaint=False)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: Rows = ()

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        """What to draw in `width` cells and `height` lines."""
        raise NotImplementedError

    def heading(self, snap: Snapshot) -> str | None:
        """The title in the part's upper rule; None leaves it as it is."""
        return None

    def watch_snap(self) -> None:
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        """Draw again, and mark for repaint the lines that came out different."""
        size = self.content_region.size
        if self.snap is None or not size.area:
            return
        heading = self.heading(self.snap)
        if heading is not None and self.border_title != f" {heading} ":
            self.border_title = f" {heading} "
        self.show(self.rows(self.snap, size.width, size.height)[: size.height])

    def show(self, rows: Rows) -> None:
        """Take these rows; nothing is repainted for a line that is equal."""
        was, self._rows = self._rows, rows
        width = self.content_region.size.width
        changed = [
            Region(0, y, width, 1)
            for y in range(max(len(was), len(rows)))
            if y >= len(was) or y >= len(rows) or was[y] != rows[y]
        ]
        if changed:
            self.refresh(*changed)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, len(self._rows))

    def render_line(self, y: int) -> Strip:
        width = self.content_region.size.width
        if y >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        return strip(self, self._rows[y], width)


def role_style(widget: Widget, role: str) -> Style:
    """The colours of a role in this widget and theme."""
    return widget.rich_style if role == "plain" else widget.get_component_rich_style(f"role-{role}")


def strip(widget: Widget, row: Row, width: int) -> Strip:
    """A row as one line of the terminal, exactly `width` cells."""
    segments = [Segment(text, role_style(widget, role)) for role, text in row]
    return Strip(segments).adjust_cell_length(width, widget.rich_style)
