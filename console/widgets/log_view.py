"""The whole log as it was seen: scrolls, follows the newest line, filters, wraps. Draws only the lines on screen."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.logbook import Book, matching
from console.rows import ROLES, Row, Run, text
from console.widgets.log_tail import log_row
from console.widgets.part import strip

INDENT = 21
"""Where the text of a log row begins; wrapped lines go on there."""


class LogView(ScrollView, can_focus=True):
    """Lines of the pod's log, newest at the bottom."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role-{role}" for role in ROLES}
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
    ]

    book: reactive[Book] = reactive((), repaint=False)
    needle: reactive[str] = reactive("", repaint=False)
    wrapping: reactive[bool] = reactive(False, repaint=False)
    following: reactive[bool] = reactive(True, repaint=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Row] = []
        self._drawn: tuple[Book, str, bool, int] = ((), "", False, 0)

    def watch_book(self) -> None:
        self.lay_out()

    def watch_needle(self) -> None:
        self.lay_out()

    def watch_wrapping(self) -> None:
        self.lay_out()

    def watch_following(self, following: bool) -> None:
        if following:
            self.scroll_end(animate=False, force=True)

    def on_resize(self) -> None:
        self.lay_out()

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self.following = new >= self.max_scroll_y

    def action_follow(self) -> None:
        """To the newest line, and stay there."""
        self.following = True
        self.scroll_end(animate=False, force=True)

    def lay_out(self) -> None:
        """Break the lines that match into lines of the screen; nothing is done when nothing changed."""
        width = self.scrollable_content_region.width
        wanted = (self.book, self.needle, self.wrapping, width)
        if not width or wanted == self._drawn:
            return
        self._drawn = wanted
        rows = [_marked(log_row(line), self.needle) for line in matching(self.book, self.needle)]
        self._lines = [part for row in rows for part in _broken(row, width)] if self.wrapping else rows
        longest = max((cell_len(text(row)) for row in self._lines), default=0)
        following = self.following
        self.virtual_size = Size(width if self.wrapping else max(width, longest), len(self._lines))
        if following:
            self.scroll_end(animate=False, immediate=True, force=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        across, down = self.scroll_offset
        width = self.scrollable_content_region.width
        index = y + down
        if index >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        whole = strip(self, self._lines[index], max(width, self.virtual_size.width))
        return whole.crop(across, across + width)


def _marked(row: Row, needle: str) -> Row:
    """The row with every match of the filter marked."""
    if not needle:
        return row
    out: list[Run] = []
    wanted = needle.casefold()
    for role, part in row:
        folded, start = part.casefold(), 0
        while len(folded) == len(part) and (at := folded.find(wanted, start)) >= 0:
            out += [(role, part[start:at]), ("match", part[at : at + len(wanted)])]
            start = at + len(wanted)
        out.append((role, part[start:]))
    return tuple(run for run in out if run[1])


def _broken(row: Row, width: int) -> list[Row]:
    """The row in lines of `width` cells, broken between words, later lines indented to where the text began."""
    body = text(row)[INDENT:]
    lines: list[Row] = []
    start = 0
    for end in _breaks(body, max(10, width - INDENT)):
        piece = _slice(row, INDENT + start, INDENT + end)
        lines.append((*_slice(row, 0, INDENT), *piece) if not lines else (("plain", " " * INDENT), *piece))
        start = end
    return lines or [row]


def _breaks(body: str, width: int) -> list[int]:
    """Where each line ends: after the last blank that fits, or in the middle of a word longer than half a line."""
    if cell_len(body) != len(body):
        width //= 2  # at worst every character takes two cells
    ends: list[int] = []
    start = 0
    while len(body) - start > width:
        blank = body.rfind(" ", start, start + width + 1) + 1
        start = blank if blank > start + width // 2 else start + width
        ends.append(start)
    return [*ends, len(body)]


def _slice(row: Row, start: int, end: int) -> Row:
    """The characters from `start` to `end`, each in its role."""
    out: list[Run] = []
    at = 0
    for role, part in row:
        kept = part[max(0, start - at) : max(0, end - at)]
        if kept:
            out.append((role, kept))
        at += len(part)
    return tuple(out)
