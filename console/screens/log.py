"""The log, full screen: follows, filters with /, wraps with w."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from console.screens.base import ESCAPES, PodScreen
from console.widgets.log_status import LogStatus
from console.widgets.log_view import LogView


class LogScreen(PodScreen):
    """The view, a line that says what is shown, and the filter's input while it is being typed."""

    AUTO_FOCUS = "LogView"
    BINDINGS: ClassVar[list[BindingType]] = [
        *ESCAPES,
        Binding("escape", "back", "back", tooltip="Clear the filter; once more, back to the overview."),
        Binding("slash", "filter", "filter", key_display="/", tooltip="Show only the lines that hold what you type."),
        Binding("w", "wrap", "wrap", tooltip="Break long lines, or let them run to the right (arrow keys scroll)."),
        Binding(
            "G,end", "follow", "follow", key_display="G", tooltip="To the newest line, and stay there as more come."
        ),
        Binding("l", "back", "back", show=False),
        Binding("b", "restart_bridge", "restart bridge", show=False),
        Binding("f", "show('findings')", "findings", show=False),
    ]

    def body(self) -> ComposeResult:
        view = LogView(id="log-view").data_bind(book=PodScreen.book)
        yield LogStatus(id="log-status").data_bind(PodScreen.snap, PodScreen.book)
        yield view
        yield Input(id="log-filter", placeholder="show only lines that hold…", compact=True)

    def on_mount(self) -> None:
        view, status = self.query_one(LogView), self.query_one(LogStatus)
        self.query_one(Input).display = False
        self.watch(view, "following", lambda following: setattr(status, "following", following))
        self.watch(view, "wrapping", lambda wrapping: setattr(status, "wrapping", wrapping))
        self.watch(view, "needle", lambda needle: setattr(status, "needle", needle))

    def action_filter(self) -> None:
        box = self.query_one(Input)
        box.display = True
        box.focus()

    def action_wrap(self) -> None:
        view = self.query_one(LogView)
        view.wrapping = not view.wrapping

    def action_follow(self) -> None:
        self.query_one(LogView).action_follow()

    def action_back(self) -> None:
        """One step back: out of the filter, then out of the screen."""
        box, view = self.query_one(Input), self.query_one(LogView)
        if box.display or view.needle:
            box.value = ""
            self._close_filter()
        else:
            super().action_back()

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        self.query_one(LogView).needle = event.value

    @on(Input.Submitted)
    def keep_filter(self) -> None:
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one(Input).display = False
        self.query_one(LogView).focus()
