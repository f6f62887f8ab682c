"""The notice fits in what it complains about."""

from __future__ import annotations

from console.rows import cells, text
from console.widgets.too_small import too_small


def test_it_says_both_sizes() -> None:
    assert [text(row) for row in too_small(50, 12, 46)] == [
        "least 60 × 20", "here 50 × 12", "s stop · q leave work here too",
    ]  # fmt: skip


def test_it_is_clipped_to_what_there_is() -> None:
    assert all(cells(row) <= 10 for row in too_small(14, 5, 10))
