"""What is shown instead of everything when the terminal is too small to show anything whole."""

from __future__ import annotations

from console.rows import Rows, clip
from console.widgets.part import Part
from control.observe.snapshot import Snapshot

LEAST_WIDTH, LEAST_HEIGHT = 60, 20


class TooSmall(Part):
    """Says the least size, the size that it is, and which keys still work."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        size = self.content_region.size
        return (
            clip((("strong", f"passerelle needs {LEAST_WIDTH} × {LEAST_HEIGHT}"),), width),
            clip((("label", f"this terminal: {size.width} × {size.height}"),), width),
            clip((("label", "s stop · q leave work here too"),), width),
        )
