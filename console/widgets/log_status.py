"""The line over the full-screen log: how many lines, which filter, whether it follows, how old it is."""

from __future__ import annotations

from textual.reactive import reactive

from console.format import age, count
from console.logbook import Book, matching
from console.rows import Row, Rows, spread
from console.widgets.connections import bridge_age
from console.widgets.part import Part
from control.observe.snapshot import Snapshot


class LogStatus(Part):
    """One line."""

    book: reactive[Book] = reactive((), repaint=False)
    needle: reactive[str] = reactive("", repaint=False)
    following: reactive[bool] = reactive(True, repaint=False)
    wrapping: reactive[bool] = reactive(False, repaint=False)

    def watch_book(self) -> None:
        self.redraw()

    def watch_needle(self) -> None:
        self.redraw()

    def watch_following(self) -> None:
        self.redraw()

    def watch_wrapping(self) -> None:
        self.redraw()

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return (log_status(snap, self.book, self.needle, self.following, self.wrapping, width),)


def log_status(snap: Snapshot, book: Book, needle: str, following: bool, wrapping: bool, width: int) -> Row:
    """How much there is at the left, how it is shown at the right."""
    total = count(len(book))
    left: Row = (("brand", "log"), ("label", f"  {total} lines"))
    if needle:
        found = count(len(matching(book, needle)))
        left = (("brand", "log"), ("plain", f"  {found} of {total} lines hold "), ("match", needle))
    old = bridge_age(snap)
    stale: Row = (("old", f"{age(old)} old · "),) if old is not None else ()
    follow: Row = (("good", "● follows"),) if following else (("watch", "▲ held: G follows"),)
    wrap: Row = (("label", " · wrapped"),) if wrapping else ()
    return spread(left, (*stale, *follow, *wrap), width)
