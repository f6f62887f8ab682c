"""A request's head: read, changed and written again without a byte that the client did not mean."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.fleet.head import END, HOP, BadHead, Head, parse

NAMES = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"), max_size=30)
TARGETS = st.text(string.ascii_letters + string.digits + "/?=&%-._~", max_size=40).map(lambda text: f"/{text}")
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=8)


@given(st.sampled_from(["GET", "POST", "delete"]), TARGETS, HEADERS)
def test_what_was_written_is_read(method: str, target: str, headers: list[tuple[str, str]]) -> None:
    head = Head(method, target, tuple((name.lower(), value.strip()) for name, value in headers))
    assert parse(head.render()) == head


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_is_a_head(raw: bytes) -> None:
    try:
        head = parse(raw + END)
    except BadHead:
        return
    assert head.target.startswith("/")
    assert parse(head.render()) == head


@given(TARGETS, HEADERS, st.dictionaries(NAMES.map(str.lower), VALUES.map(str.strip), max_size=3))
def test_what_is_changed_is_there_once_and_the_rest_stays(
    target: str, headers: list[tuple[str, str]], add: dict[str, str]
) -> None:
    add = {name: value for name, value in add.items() if name not in HOP}
    head = Head("POST", "/", tuple((name.lower(), value.strip()) for name, value in headers))
    changed = head.but(target, add, ("authorization",))
    assert changed.target == target
    assert {name: [v for key, v in changed.headers if key == name] for name in add} == {n: [v] for n, v in add.items()}
    gone = {*HOP, "authorization", *add}
    assert [pair for pair in changed.headers if pair[0] not in gone] == [p for p in head.headers if p[0] not in gone]
    assert changed.headers[-1] == ("connection", "close")
    assert [pair for pair in changed.headers if pair[0] in HOP] == [("connection", "close")]


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/2\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\n",
        b"/ HTTP/1.1\r\n",
        b"GET /\nx: y HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n",
        b"GET / HTTP/1.1\r\n folded: yes\r\n",
        b"GET / HTTP/1.1\r\na: b\nc: d\r\n",
    ],
)
def test_what_could_smuggle_is_refused(raw: bytes) -> None:
    with pytest.raises(BadHead):
        parse(raw.removesuffix(b"\r\n") + END)


@pytest.mark.parametrize(
    ("headers", "length"), [("", 0), ("content-length: 12\r\n", 12), ("Content-Length: 3\r\ncontent-length: 3\r\n", 3)]
)
def test_the_length_of_the_body(headers: str, length: int) -> None:
    assert parse(f"POST / HTTP/1.1\r\n{headers}".removesuffix("\r\n").encode() + END).length == length


@pytest.mark.parametrize(
    "headers",
    [
        "content-length: 1, 2",
        "content-length: -1",
        "content-length: 3\r\ncontent-length: 4",
        "transfer-encoding: chunked",
    ],
)
def test_a_length_that_is_not_one_number_is_refused(headers: str) -> None:
    with pytest.raises(BadHead):
        parse(f"POST / HTTP/1.1\r\n{headers}".encode() + END).length  # noqa: B018
