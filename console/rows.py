"""What a part of the screen draws: rows of (role, text). Pure; the colours of a role are app.tcss's.

A role is a meaning, never a colour. Of the four that judge (good, watch, bad, unknown) none stands without its glyph,
so the screen reads the same without colour.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.cells import cell_len, set_cell_size

Role = Literal[
    "plain", "label", "strong", "good", "watch", "bad", "unknown", "old", "brand", "chart", "chip", "alarm", "match"
]
Run = tuple[Role, str]
Row = tuple[Run, ...]
Rows = tuple[Row, ...]
State = Literal["good", "watch", "bad", "unknown"]

ROLES: tuple[Role, ...] = (
    "plain", "label", "strong", "good", "watch", "bad", "unknown", "old", "brand", "chart", "chip", "alarm", "match",
)  # fmt: skip
GLYPH: dict[State, str] = {"good": "●", "watch": "▲", "bad": "■", "unknown": "○"}


def text(row: Row) -> str:
    """The row without its roles."""
    return "".join(run[1] for run in row)


def cells(row: Row) -> int:
    """Width of the row in terminal cells."""
    return cell_len(text(row))


def clip(row: Row, width: int) -> Row:
    """At most `width` cells; what was cut ends in …."""
    if cells(row) <= width:
        return row
    kept: list[Run] = []
    left = width - 1
    for role, part in row:
        size = cell_len(part)
        if size > left:
            kept.append((role, set_cell_size(part, max(0, left)).rstrip() + "…"))
            break
        kept.append((role, part))
        left -= size
    return tuple(kept)


def spread(left: Row, right: Row, width: int) -> Row:
    """`left` at the left edge and `right` at the right one; the left is clipped first."""
    if not right:
        return clip(left, width)
    left = clip(left, max(0, width - cells(right) - 1))
    gap = width - cells(left) - cells(right)
    return clip((*left, ("plain", " " * max(0, gap)), *right), width)


def fit(groups: Iterable[Row], width: int, gap: int = 3) -> Row:
    """Groups in order, `gap` blanks between, as many as fit whole. The most important group comes first."""
    out: list[Run] = []
    used = 0
    for group in groups:
        size = cells(group) + (gap if out else 0)
        if used + size > width:
            return tuple(out) if out else clip(group, width)
        if out:
            out.append(("plain", " " * gap))
        out.extend(group)
        used += size
    return tuple(out)


def field(label: str, figure: str, width: int, role: Role = "plain") -> Row:
    """`label` and a figure right-aligned in `width` cells: it holds its column whatever the figure."""
    return (("label", f"{label} "), (role, figure.rjust(width)))


def aged(rows: Rows) -> Rows:
    """The same rows, dimmed whole: nothing in them is fresh, so nothing in them may still look judged."""
    return tuple(tuple(("old", part) for _, part in row) for row in rows)


def wrap(pieces: Sequence[Row], width: int) -> Rows:
    """Pieces joined by " · " and broken over lines between them; a piece wider than a line is broken between words."""
    lines: list[Row] = []
    line: Row = ()
    for piece in pieces:
        longer = (*line, ("label", " · "), *piece) if line else piece
        if line and cells(longer) > width:
            lines.append(line)
            longer = piece
        *full, line = _split(longer, width)
        lines += full
    return (*lines, line) if line else tuple(lines)


def _split(row: Row, width: int) -> list[Row]:
    """Only a row of one run is broken; any other is clipped."""
    if cells(row) <= width or len(row) != 1:
        return [clip(row, width)]
    role, words = row[0]
    return [clip(((role, part),), width) for part in textwrap.wrap(words, width)] or [()]
