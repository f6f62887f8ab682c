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
        total = len(self.book)
        left: Row = (("brand", "log"), ("label", f"  {count(total)} lines"))
        if self.needle:
            left = (
                ("brand", "log"),
                ("plain", f"  {count(len(matching(self.book, self.needle)))} of {count(total)} lines hold "),
                ("match", f"{self.needle}"),
            )
        old = bridge_age(snap)
        stale: Row = (("old", f"{age(old)} old · "),) if old is not None else ()
        follow: Row = (("good", "● follows"),) if self.following else (("watch", "▲ held: G follows"),)
        wrap: Row = (("label", " · wrapped"),) if self.wrapping else ()
        return (spread(left, (*stale, *follow, *wrap), width),)
