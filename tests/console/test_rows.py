"""Rows keep their width, whatever is put in them."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from console.rows import GLYPH, ROLES, Role, Row, aged, cells, clip, field, fit, spread, text, wrap

runs = st.tuples(st.sampled_from(ROLES), st.text(st.sampled_from("ab 界…é"), max_size=12))
rows = st.lists(runs, max_size=6).map(tuple)


def test_every_role_is_listed_once() -> None:
    assert tuple(get_args(Role)) == ROLES


def test_every_glyph_is_its_own() -> None:
    assert len(set(GLYPH.values())) == 4


@given(rows, st.integers(1, 60))
def test_clip_never_exceeds_the_width_and_keeps_what_fits(row: Row, width: int) -> None:
    clipped = clip(row, width)
    assert cells(clipped) <= width
    assert clipped == row if cells(row) <= width else text(clipped).endswith("…")


@given(rows, rows, st.integers(1, 60))
def test_spread_puts_the_right_part_at_the_edge(left: Row, right: Row, width: int) -> None:
    line = spread(left, right, width)
    assert cells(line) <= width
    if right and cells(right) < width:
        assert cells(line) == width
        assert text(line).endswith(text(right))


@given(st.lists(rows, max_size=6), st.integers(1, 60))
def test_fit_and_wrap_stay_inside(groups: list[Row], width: int) -> None:
    assert cells(fit(groups, width)) <= width
    assert all(cells(line) <= width for line in wrap(groups, width))


def test_fit_drops_whole_groups_from_the_end() -> None:
    groups: list[Row] = [(("plain", "12345"),), (("plain", "678"),), (("plain", "9"),)]
    assert text(fit(groups, 11)) == "12345   678"


def test_a_first_group_that_is_too_wide_is_clipped_not_lost() -> None:
    assert text(fit([(("plain", "12345"),)], 4)) == "123…"


def test_wrap_breaks_between_pieces() -> None:
    pieces: list[Row] = [(("plain", "aaaa"),), (("plain", "bbbb"),), (("plain", "cc"),)]
    assert [text(line) for line in wrap(pieces, 11)] == ["aaaa · bbbb", "cc"]


def test_wrap_breaks_a_long_piece_between_words() -> None:
    pieces: list[Row] = [(("bad", "one two three four"),), (("plain", "ok"),)]
    assert [text(line) for line in wrap(pieces, 10)] == ["one two", "three four", "ok"]


def test_a_field_holds_its_column() -> None:
    assert text(field("pings", "–", 4)) == "pings    –"
    assert text(field("pings", "1234", 4)) == "pings 1234"


def test_what_is_old_is_not_judged() -> None:
    assert aged(((("bad", "■ stalled"),),)) == ((("old", "■ stalled"),),)
