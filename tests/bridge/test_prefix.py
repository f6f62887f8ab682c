from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.prefix import Prefixes, _common

WHO = ("session", "main")


def asks(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text} for text in texts], **fields}


def test_a_prompt_that_grows_or_goes_back_keeps_its_prefix() -> None:
    one = Prefixes()
    assert one.take(WHO, asks("a")) is None
    assert one.take(WHO, asks("a", "b")) is None
    assert one.take(WHO, asks("a", "b", "c")) is None
    assert one.take(WHO, asks("a")) is None


def test_where_it_breaks_is_said_with_what_was_there() -> None:
    one = Prefixes()
    one.take(WHO, asks("first", "second question", "third"))
    said = one.take(WHO, asks("first", "second answer", "third"))
    assert said is not None
    before = len(b'null\nnull\n{"role":"user","content":"first"}\n{"role":"user","content":"second ')
    assert said.startswith(f"at byte {before} of ")
    assert ", in part 3: " in said
    assert "second question" in said.partition(" became ")[0]
    assert "second answer" in said.partition(" became ")[2]


def test_a_tool_that_comes_in_breaks_before_all_messages() -> None:
    one = Prefixes()
    one.take(WHO, asks("a", tools=[{"name": "f"}], system="S"))
    said = one.take(WHO, asks("a", tools=[{"name": "f"}, {"name": "g"}], system="S"))
    assert said is not None
    assert ", in part 2: " in said


def test_conversations_are_apart_and_odd_requests_are_no_error() -> None:
    one = Prefixes()
    one.take(WHO, asks("a"))
    assert one.take(("session", "other"), asks("b")) is None
    assert one.take(("x", "y"), {}) is None
    assert one.take(("x", "y"), {"messages": "text", "tools": 3}) is not None


def test_what_is_kept_is_bounded_and_the_longest_unused_goes_first() -> None:
    one = Prefixes(max_bytes=3000)
    for name in "abc":
        one.take(("s", name), asks(name * 1000))
    assert one.take(("s", "a"), asks("else")) is None
    assert one.take(("s", "c"), asks("else")) is not None


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_the_common_part_is_the_longest(head: bytes, one: bytes, other: bytes) -> None:
    first, second = head + one, head + other
    at = _common(first, second)
    assert first[:at] == second[:at]
    assert at == min(len(first), len(second)) or first[at] != second[at]
