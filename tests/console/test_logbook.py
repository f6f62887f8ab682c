"""The book holds every line once, in order, across windows that overlap and a pod that begins anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bootstrap.report import LogLine
from console.logbook import CAPACITY, Book, matching, merge


def written(first: int, last: int, at: float = 0.0) -> Book:
    return tuple(LogLine(seq, at + seq, "engine", "info", f"line {seq}") for seq in range(first, last + 1))


def test_nothing_new_is_the_same_book() -> None:
    book = written(1, 5)
    assert merge(book, book[2:]) is book
    assert merge(book, ()) is book


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30))
def test_overlapping_windows_give_each_line_once(steps: list[int]) -> None:
    """Any sequence of windows that leave no hole gives the lines 1..n."""
    book: Book = ()
    last = 0
    for size in steps:
        first = max(1, last - 10)
        last += size
        book = merge(book, written(first, last))
    assert [line.seq for line in book] == list(range(1, last + 1))


def test_a_new_supervisor_begins_at_one_again() -> None:
    old, new = written(1, 50), written(1, 3, at=1000.0)
    assert merge(old, new) == (*old, *new)


def test_an_older_window_is_no_new_life() -> None:
    book = written(1, 50)
    assert merge(book, book[:10]) is book


def test_the_book_is_bounded() -> None:
    book = merge(written(1, CAPACITY), written(CAPACITY - 5, CAPACITY + 7))
    assert (len(book), book[-1].seq) == (CAPACITY, CAPACITY + 7)


def test_a_filter_looks_at_text_source_and_level_whatever_the_case() -> None:
    book = (LogLine(1, 0, "engine", "warning", "Triton JIT"), LogLine(2, 0, "bridge", "info", "POST"))
    assert matching(book, "triton") == book[:1]
    assert matching(book, "WARNING") == book[:1]
    assert matching(book, "bridge") == book[1:]
    assert matching(book, "") is book
