"""The charts share one axis, show gaps as gaps, and move by whole columns."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from console.blank import blank
from console.rows import cells, text
from console.widgets.charts import LABEL, PEAK, charts
from control.models import PodId
from control.observe.snapshot import Point, Snapshot
from tests.console.snapshots import AT, healthy, history

WIDTH = LABEL + PEAK + 1 + 60
"""Sixty columns: five seconds each."""


def with_history(*points: Point, at: float = AT) -> Snapshot:
    return replace(healthy(at), history=points)


def plain(at: float, decode: float | None, mark: str = "") -> Point:
    return Point(at, None, decode, None, None, None, mark)


def chart(snap: Snapshot, line: int = 0, width: int = WIDTH, height: int = 6) -> str:
    return text(charts(snap, width, height)[line])[LABEL : width - PEAK - 1]


def test_the_newest_second_is_the_last_column_and_five_minutes_ago_has_left() -> None:
    snap = with_history(plain(AT - 301, 9.0), plain(AT - 150, 5.0), plain(AT, 10.0))
    drawn = chart(snap)
    assert (drawn[-1], drawn.strip()[0]) == ("█", drawn[29])
    assert len(drawn.replace(" ", "")) == 2


def test_what_was_not_known_is_a_gap() -> None:
    snap = with_history(plain(AT - 10, 8.0), plain(AT - 5, None), plain(AT, 0.0))
    assert chart(snap)[-3:] == "█ ▁"


def test_every_series_has_its_peak_and_its_unit() -> None:
    lines = [text(row) for row in charts(healthy(), WIDTH, 6)]
    assert [line.split()[0] for line in lines[:5]] == ["decode", "prefill", "hits", "KV", "waiting"]
    assert [" ".join(line[-PEAK:].split()) for line in lines[:5]] == ["170 tok/s", "6 000 tok/s", "96 %", "66 %", "0"]


def test_nothing_known_has_no_peak() -> None:
    assert [text(row).split() for row in charts(blank(PodId("p")), WIDTH, 6)][3] == ["KV", "–"]


def test_a_mark_stands_under_its_moment() -> None:
    early = chart(with_history(plain(AT - 200, 1.0, "engine restart")), 5)
    assert early.index("↑ engine restart") == 59 - 40
    late = chart(with_history(plain(AT - 20, 1.0, "engine restart")), 5)
    assert late.index("engine restart ↑") + len("engine restart ") == 59 - 4
    assert late.endswith("now")


def test_a_mark_at_the_right_edge_is_whole_and_now_gives_way() -> None:
    axis = chart(with_history(plain(AT - 2, 1.0, "bridge restart")), 5)
    assert axis.endswith("bridge restart ↑")


def test_where_there_is_no_room_for_its_words_the_arrow_is_left() -> None:
    narrow = LABEL + PEAK + 1 + 16
    snap = with_history(plain(AT - 150, 1.0, "engine restart"))
    assert "↑" in chart(snap, 5, narrow)
    assert "restart" not in chart(snap, 5, narrow)


def test_a_second_later_the_old_columns_have_not_changed() -> None:
    """Bins are of absolute time: between two bin edges only the newest column may differ."""
    at = AT - AT % 5 + 1
    before = chart(replace(healthy(at), history=history(at)))
    later = chart(replace(healthy(at + 1), history=(*history(at)[1:], plain(at + 1, 150.0))))
    assert later[1:-1] == before[1:-1]


@given(st.integers(30, 200), st.integers(1, 14), st.floats(0, 1e9))
def test_it_stays_inside_its_size(width: int, height: int, at: float) -> None:
    drawn = charts(replace(healthy(at), history=history(at)), width, height)
    assert len(drawn) <= height
    assert all(cells(row) <= width for row in drawn)


def test_two_lines_each_where_there_is_room() -> None:
    assert len(charts(healthy(), WIDTH, 11)) == 11
    assert len(charts(healthy(), WIDTH, 10)) == 6
