"""A page wraps what it says beside its terms."""

from __future__ import annotations

from console.rows import cells, text
from console.widgets.page import TERM, Section, page


def test_meanings_wrap_in_their_column() -> None:
    rows = page((Section("Keys", (("s", "brand", "stop " * 20),)), Section("More", (("x", "nonsense", ""),))), 60)
    assert text(rows[0]) == "Keys"
    assert all(cells(row) <= 60 for row in rows)
    assert text(rows[2]).startswith(" " * (TERM + 3) + "stop")
    assert rows[-1][1][0] == "plain"
