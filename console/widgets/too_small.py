"""What is shown instead of everything when the terminal is too small to show anything whole."""

from __future__ import annotations

from console.rows import Rows, clip
from console.widgets.part import Part
from control.observe.snapshot import Snapshot

LEAST_WIDTH, LEAST_HEIGHT = 60, 20


class TooSmall(Part):
    """Says the least size, the size that it is, and which keys still work."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        size = self.screen.size
        return too_small(size.width, size.height, width)


def too_small(columns: int, lines: int, width: int) -> Rows:
    """The least size, then the terminal's own; in `width` cells."""
    return (
        clip((("strong", f"least {LEAST_WIDTH} × {LEAST_HEIGHT}"),), width),
        clip((("label", f"here {columns} × {lines}"),), width),
        clip((("label", "s stop · q leave work here too"),), width),
    )
