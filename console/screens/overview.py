"""The overview: is it working, what limits it, what it costs, who is doing what, what the machine says."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal

from console.screens.base import PodScreen
from console.widgets.agents import Agents
from console.widgets.charts import Charts
from console.widgets.connections import Connections
from console.widgets.engine import Engine
from console.widgets.finding import FindingLines
from console.widgets.header import Header
from console.widgets.log_tail import LogTail
from console.widgets.money import Money
from console.widgets.too_small import LEAST_HEIGHT, LEAST_WIDTH, TooSmall
from console.widgets.verdict import VerdictLine

WIDTHS = [(0, "-thin"), (LEAST_WIDTH, "-narrow"), (110, "-wide")]
HEIGHTS = [(0, "-flat"), (LEAST_HEIGHT, "-short"), (32, "-high"), (46, "-tall")]
"""Least cells and lines at which a class of app.tcss applies."""


class Overview(PodScreen):
    """Which parts are shown, and how high, follows from the terminal's size by app.tcss."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def body(self) -> ComposeResult:
        yield Header(id="header").data_bind(PodScreen.snap)
        yield VerdictLine(id="verdict").data_bind(PodScreen.snap)
        yield FindingLines(id="finding").data_bind(PodScreen.snap)
        money = Money(id="money", classes="ruled").data_bind(PodScreen.snap)
        money.border_title = " money "
        yield money
        with Horizontal(id="middle"):
            yield Engine(id="engine", classes="ruled").data_bind(PodScreen.snap)
            charts = Charts(id="charts", classes="ruled").data_bind(PodScreen.snap)
            charts.border_title = " last 5 minutes · peak at right "
            yield charts
        yield Connections(id="connections", classes="ruled").data_bind(PodScreen.snap)
        yield Agents(id="agents", classes="ruled").data_bind(PodScreen.snap)
        yield LogTail(id="log", classes="ruled").data_bind(PodScreen.snap)
        yield TooSmall(id="too-small").data_bind(PodScreen.snap)
