"""A page of sections, each of (term, what it means) lines, wrapped to the width that there is."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from console.rows import ROLES, Role, Row, Rows
from console.widgets.part import Part

TERM = 20
"""Cells of the term's column."""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[tuple[str, str, str], ...]
    """(term, its role, what it means)"""


class Page(Part):
    """As high as its text."""

    def __init__(self, sections: tuple[Section, ...] = ()) -> None:
        super().__init__()
        self.sections = sections

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, len(page(self.sections, width)))

    def redraw(self) -> None:
        self.show(page(self.sections, self.content_region.size.width))


def page(sections: tuple[Section, ...], width: int) -> Rows:
    rows: list[Row] = []
    for section in sections:
        rows += [*([()] if rows else []), (("strong", section.title),)]
        for term, role, meaning in section.entries:
            rows += _entry(term, role, meaning, width)
    return tuple(rows)


def _entry(term: str, role: str, meaning: str, width: int) -> list[Row]:
    known: Role = next((one for one in ROLES if one == role), "plain")
    lines = textwrap.wrap(meaning, max(20, width - TERM - 3)) or [""]
    first: Row = (("plain", "  "), (known, term.ljust(TERM) + " "), ("plain", lines[0]))
    return [first, *((("plain", " " * (TERM + 3) + line),) for line in lines[1:])]
