"""The last lines of the pod's log; a level that matters carries its glyph."""

from __future__ import annotations

from bootstrap.report import Level, LogLine
from console.format import clock, printable
from console.rows import Role, Row, Rows, aged, clip
from console.widgets.connections import bridge_age, titled
from console.widgets.part import Part
from control.observe.snapshot import Snapshot

LEVELS: dict[Level, tuple[Role, str]] = {
    "debug": ("label", " "),
    "info": ("plain", " "),
    "warning": ("watch", "▲"),
    "error": ("bad", "■"),
}


class LogTail(Part):
    """As many lines as it is high."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        drawn = log_tail(snap.log, width, height)
        return aged(drawn) if bridge_age(snap) is not None else drawn

    def heading(self, snap: Snapshot) -> str:
        return titled("log", snap)


def log_tail(lines: tuple[LogLine, ...], width: int, height: int) -> Rows:
    """The newest line is the lowest."""
    if not lines:
        return ((("label", "no log line yet"),),)
    return tuple(clip(log_row(line), width) for line in lines[-height:])


def log_row(line: LogLine) -> Row:
    """Time of day, who said it, the level's glyph, the text made harmless."""
    role, glyph = LEVELS[line.level]
    return (
        ("label", f"{clock(line.at)} {line.source:<9} "),
        (role, f"{glyph} "),
        (role, printable(line.text)),
    )
