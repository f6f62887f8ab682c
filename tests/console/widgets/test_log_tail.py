"""The last lines, the newest lowest; levels have glyphs, text cannot act on the terminal."""

from __future__ import annotations

from bootstrap.report import LogLine
from console.rows import cells, text
from console.widgets.log_tail import log_row, log_tail
from tests.console.snapshots import LOG


def test_the_newest_is_the_lowest() -> None:
    drawn = log_tail(LOG, 118, 3)
    assert [text(row)[21:] for row in drawn] == [line.text for line in LOG[-3:]]


def test_levels() -> None:
    assert [text(row)[19] for row in log_tail(LOG, 118, 8)] == [" ", " ", " ", " ", "▲", " ", "■", " "]


def test_a_long_line_is_clipped_and_a_hostile_one_harmless() -> None:
    (row,) = log_tail((LogLine(1, 0.0, "engine", "info", "\x1b[2J" + "x" * 300),), 78, 1)
    assert cells(row) == 78
    assert "\x1b" not in text(row)


def test_nothing_yet() -> None:
    assert text(log_tail((), 78, 5)[0]) == "no log line yet"


def test_the_time_of_day_comes_first() -> None:
    assert text(log_row(LOG[0]))[2::3][:2] == "::"
