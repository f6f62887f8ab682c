"""Findings in full: what limits the pod, its numbers, the lever, where to read on; and what each light says."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from console.format import age, printable
from console.rows import GLYPH
from console.screens.base import ESCAPES, PodScreen
from console.widgets.finding import MARK, ranked
from console.widgets.page import Page, Section
from control.observe.snapshot import Light, Snapshot


class FindingsScreen(PodScreen):
    """One page, kept true while it is open."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        *ESCAPES,
        Binding("escape", "back", "back", tooltip="Back to the overview."),
        Binding("f", "back", "back", show=False),
    ]

    def body(self) -> ComposeResult:
        with VerticalScroll(id="page"):
            yield Page()

    def watch_snap(self, snap: Snapshot | None) -> None:
        if snap is not None and self.is_mounted:
            self.query_one(Page).sections = sections(snap)

    def on_mount(self) -> None:
        self.watch_snap(self.snap)


def sections(snap: Snapshot) -> tuple[Section, ...]:
    """The findings, worst first, then the lights."""
    found = []
    for finding in ranked(snap):
        role, glyph = MARK[finding.severity]
        entries = [(f"{glyph} {finding.severity}", role, printable(finding.detail))]
        if finding.lever:
            entries.append(("lever", "brand", printable(finding.lever)))
        if finding.doc:
            entries.append(("more", "label", printable(finding.doc)))
        found.append(
            Section(printable(finding.title).upper(), tuple((term, str(kind), text) for term, kind, text in entries))
        )
    if not found:
        found.append(Section("No finding", (("", "plain", "No rule sees a limit or a fault now."),)))
    lights = [(f"{GLYPH[light.state]} {light.name}", light.state, _seen(light)) for light in snap.lights]
    config = [("▲ config", "watch", printable(snap.config_error))] if snap.config_error else []
    return (*found, Section("Lights", (*lights, *config)))


def _seen(light: Light) -> str:
    when = "never good yet" if light.age_s is None else f"last good {age(light.age_s)} ago"
    return f"{when}: {printable(light.detail)}" if light.detail else when
