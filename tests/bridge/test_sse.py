from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import EngineBroken
from bridge.sse import Splitter, data_of


def split(chunks: list[bytes], limit: int = 1 << 20) -> list[bytes]:
    splitter = Splitter(limit)
    records = [record for chunk in chunks for record in splitter.feed(chunk)] + [splitter.rest]
    return [data for record in records if (data := data_of(record))]


def cuts(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


LINES = st.lists(
    st.sampled_from([b"data: a", b"data:b", b"data", b": ping", b"event: x", b"id: 1", b"", b"data: \xe2\x80\xa8"]),
    max_size=12,
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(LINES, st.lists(ENDS, min_size=12, max_size=12), st.lists(st.integers(0, 400), max_size=8))
def test_no_cut_changes_the_records(lines: list[bytes], ends: list[bytes], places: list[int]) -> None:
    data = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    assert split(cuts(data, places)) == split([data])
    assert split([data[i : i + 1] for i in range(len(data))]) == split([data])


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6), st.integers(1, 60))
def test_garbage_is_records_or_our_error_alike_for_any_cut(data: bytes, places: list[int], limit: int) -> None:
    def outcome(chunks: list[bytes]) -> tuple[list[bytes], bool]:
        splitter, records = Splitter(limit), list[bytes]()
        try:
            for chunk in chunks:
                for record in splitter.feed(chunk):
                    records.append(record)
        except EngineBroken:
            return [*map(data_of, filter(data_of, records))], True
        return [*map(data_of, filter(data_of, [*records, splitter.rest]))], False

    assert outcome(cuts(data, places)) == outcome([data])


@given(st.text(st.sampled_from("ab\u2028\u2029\u0085\v\f\x1c é"), max_size=30))
def test_unicode_line_separators_are_text(text: str) -> None:
    payload = json.dumps({"t": text}, ensure_ascii=False).encode()
    assert split([b"data: " + payload + b"\n\n"]) == [payload]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_works(end: bytes) -> None:
    assert split([b"data: a" + end + b"data: b" + end + end + b"data: c" + end + end]) == [b"a\nb", b"c"]


def test_a_record_ends_with_its_cr_without_waiting_for_the_lf() -> None:
    splitter = Splitter()
    assert list(splitter.feed(b"data: a\r\n\r")) == [b"data: a"]
    assert [*map(data_of, splitter.feed(b"\ndata: b\r\n\r\n"))] == [b"b"]


def test_records_are_the_bytes_that_came() -> None:
    splitter = Splitter()
    assert list(splitter.feed(b"event: x\ndata: a\n\n: ping\n\nda")) == [b"event: x\ndata: a", b": ping"]
    assert splitter.rest == b"da"
    assert (data_of(b": ping"), data_of(b""), data_of(b"event: x\ndata: a")) == (b"", b"", b"a")


def test_bom_and_a_missing_last_blank_line() -> None:
    assert split([b"\xef\xbb", b"\xbfdata: a\n\ndata: b"]) == [b"a", b"b"]


def test_the_buffer_is_bounded_and_what_came_before_is_kept() -> None:
    splitter, seen = Splitter(limit=100), list[bytes]()
    with pytest.raises(EngineBroken):
        seen.extend(splitter.feed(b"data: fine\n\n" + b"data: " + b"x" * 200))
    assert seen == [b"data: fine"]
