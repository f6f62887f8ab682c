"""The line over the log says what is shown and whether it is still coming."""

from __future__ import annotations

from console.rows import text
from console.widgets.log_status import log_status
from tests.console.snapshots import LOG, healthy, unreachable


def said(needle: str = "", following: bool = True, wrapping: bool = False, old: bool = False) -> str:
    snap = unreachable() if old else healthy()
    return " ".join(text(log_status(snap, LOG, needle, following, wrapping, 78)).split())


def test_what_it_says() -> None:
    assert said() == "log 8 lines ● follows"
    assert said(following=False, wrapping=True) == "log 8 lines ▲ held: G follows · wrapped"
    assert said(needle="triton") == "log 1 of 8 lines hold triton ● follows"
    assert said(old=True) == "log 8 lines 42 s old · ● follows"
