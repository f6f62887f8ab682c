"""Numbers, ages, money and untrusted text, as tables; sparklines and printable as properties."""

from __future__ import annotations

import unicodedata
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import format as f


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (812, "812"), (5230.4, "5 230"), (118_402, "118 402"), (1_048_576, "1 048 576")],
)
def test_count(value: float | None, text: str) -> None:
    assert f.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (812, "812"), (9_999, "9 999"), (10_000, "10 k"), (495_000, "495 k"), (999_499, "999 k"),
     (999_500, "1.00 M"), (1_048_576, "1.05 M"), (84_100_000, "84.10 M"), (210_000_000, "210 M")],
)  # fmt: skip
def test_short(value: float | None, text: str) -> None:
    assert f.short(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "–"), (0.0, "0 %"), (0.0004, "1 %"), (0.66, "66 %"), (0.9999, "99 %"), (1.0, "100 %")],
)
def test_percent_is_whole_only_when_it_is(share: float | None, text: str) -> None:
    assert f.percent(share) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(None, 2, "–"), (0.0, 2, "0.00 $"), (3.7812, 2, "3.78 $"), (3.7812, 4, "3.7812 $"), (1234.5, 2, "1 234.50 $")],
)
def test_dollars(value: float | None, digits: int, text: str) -> None:
    assert f.dollars(value, digits) == text


def test_dollars_per_something() -> None:
    assert (f.per(0.74, "h"), f.per(0.02, "day"), f.per(None, "h")) == ("0.74 $/h", "0.02 $/day", "–")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0 ms"), (0.034, "34 ms"), (0.0994, "99 ms"), (0.0996, "0.10 s"), (0.41, "0.41 s"),
     (0.996, "1.0 s"), (1.94, "1.9 s"), (9.96, "9 s"), (31.4, "31 s"), (6000, "1 h")],
)  # fmt: skip
def test_latency(seconds: float | None, text: str) -> None:
    assert f.latency(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (-2.0, "0 s"), (4.9, "4 s"), (99, "99 s"), (100, "1 m"), (5_999, "99 m"), (6_000, "1 h"),
     (359_999, "99 h"), (360_000, "4 d")],
)  # fmt: skip
def test_age(seconds: float | None, text: str) -> None:
    assert f.age(seconds) == text
    assert len(f.tight_age(seconds)) <= 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (45, "45 s"), (845, "14 m 05 s"), (8_054, "2 h 14 m"), (273_600, "3 d 4 h")],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert f.duration(seconds) == text


def test_clock_is_of_the_zone_that_was_given() -> None:
    assert f.clock(1_796_132_767.0, UTC) == "13:46:07"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain · text", "plain · text"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("a\tb\rc\x00d", "a b c d"),
        ("\u202eevil", " evil"),
        ("\x9b31mC1", " 31mC1"),
    ],
)
def test_printable(text: str, clean: str) -> None:
    assert f.printable(text) == clean


@given(st.text())
def test_printable_leaves_nothing_that_a_terminal_obeys(text: str) -> None:
    """No control character survives, and a second pass changes nothing."""
    clean = f.printable(text)
    assert not [char for char in clean if unicodedata.category(char) == "Cc"]
    assert f.printable(clean) == clean


@pytest.mark.parametrize(("width", "clipped"), [(0, ""), (1, "…"), (4, "abc…"), (6, "abcdef")])
def test_clip(width: int, clipped: str) -> None:
    assert f.clip("abcdef", width) == clipped


def test_a_gap_never_looks_like_a_zero() -> None:
    assert f.sparkline([None, 0, 1, 8], top=8) == (" ▁▂█",)


def test_two_lines_have_sixteen_levels() -> None:
    assert f.sparkline([0, 7.5, 15, None], top=15, rows=2) == (" ▁█ ", "▁██ ")


@given(st.lists(st.none() | st.floats(0, 1e6)), st.floats(0, 1e6), st.integers(1, 3))
def test_a_sparkline_is_as_wide_as_its_values(values: list[float | None], top: float, rows: int) -> None:
    drawn = f.sparkline(values, top, rows)
    assert [len(line) for line in drawn] == [len(values)] * rows
    assert [char == " " for char in drawn[-1]] == [value is None for value in values]
