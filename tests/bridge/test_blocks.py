from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bridge.blocks import BlockEvent, Blocks, Closed, Opened, Piece
from bridge.events import Text, Thinking, ToolPart
from tests.bridge.chunks import recorded
from tests.bridge.test_decode import decode


def run(*events: Thinking | Text | ToolPart) -> list[BlockEvent]:
    blocks = Blocks("msg_1")
    return [out for event in events for out in blocks.take(event)] + blocks.finish()


def shape(events: list[BlockEvent]) -> list[tuple[str, str, str]]:
    """(kind, name, content) of each block; asserts one open at a time, opened and closed once, contiguous."""
    out: list[tuple[str, str, str]] = []
    current: Opened | None = None
    content = ""
    for event in events:
        if isinstance(event, Opened):
            assert current is None
            assert event.index == len(out)
            current, content = event, ""
        elif isinstance(event, Piece):
            assert current is not None
            assert (event.index, event.kind) == (current.index, current.kind)
            content += event.text
        else:
            assert isinstance(event, Closed)
            assert current is not None
            assert event.index == current.index
            out.append((current.kind, current.name, content))
            current = None
    assert current is None
    return out


def part(call: int, arguments: str, name: str | None = None) -> ToolPart:
    return ToolPart(call, f"c{call}" if name else None, name, arguments)


def test_thinking_text_tool() -> None:
    got = run(Thinking("a"), Thinking("b"), Text("c"), part(0, "", "f"), part(0, "{}"))
    assert shape(got) == [("thinking", "", "ab"), ("text", "", "c"), ("tool_use", "f", "{}")]


def test_interleaved_calls_are_held_and_replayed() -> None:
    got = run(part(0, '{"x":', "A"), part(1, '{"y":', "B"), part(0, "1}"), part(1, "2}"))
    assert shape(got) == [("tool_use", "A", '{"x":1}'), ("tool_use", "B", '{"y":2}')]


def test_a_second_call_streams_as_soon_as_the_first_is_whole() -> None:
    blocks = Blocks("msg_1")
    blocks.take(part(0, '{"x":1}', "A"))
    assert blocks.take(part(1, '{"y":', "B")) == [
        Closed(0, "tool_use"),
        Opened(1, "tool_use", "c1", "B"),
        Piece(1, "tool_use", '{"y":'),
    ]


def test_text_after_an_open_call_waits_for_it() -> None:
    got = run(part(0, '{"x":', "A"), Text("after"), part(0, "1}"))
    assert shape(got) == [("tool_use", "A", '{"x":1}'), ("text", "", "after")]


def test_blank_text_between_calls_makes_no_block_and_leading_blanks_are_kept() -> None:
    got = run(Thinking("t"), Text("\n\n"), part(0, "{}", "A"), Text("\n"), part(1, "{}", "B"), Text(" \n"), Text("x"))
    assert [kind for kind, _, _ in shape(got)] == ["thinking", "tool_use", "tool_use", "text"]
    assert shape(got)[-1] == ("text", "", " \nx")


def test_a_call_is_opened_with_its_name_even_when_it_comes_late() -> None:
    got = run(ToolPart(0, "c0", None, '{"a"'), ToolPart(0, None, "f", ":1}"))
    assert got[0] == Opened(0, "tool_use", "c0", "f")
    assert shape(got) == [("tool_use", "f", '{"a":1}')]


def test_a_call_without_an_id_gets_one() -> None:
    (opened, *_) = run(ToolPart(0, None, "f", "{}"))
    assert isinstance(opened, Opened)
    assert opened.id.startswith("toolu_")


def test_abandon_closes_only_what_is_open() -> None:
    blocks = Blocks("msg_1")
    blocks.take(part(0, '{"x":', "A"))
    blocks.take(Text("held"))
    assert blocks.abandon() == [Closed(0, "tool_use")]
    assert blocks.finish() == []


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[list[str], list[ToolPart]]:
    """Calls with object arguments, cut anywhere, in any order that keeps each call's own order."""
    arguments = [json.dumps(draw(st.dictionaries(st.text(max_size=3), st.integers(), max_size=2))) for _ in range(3)]
    queues = []
    for call, text in enumerate(arguments):
        at = draw(st.integers(0, len(text)))
        queues.append([part(call, text[:at], "f"), part(call, text[at:])])
    order = draw(st.permutations([0, 0, 1, 1, 2, 2]))
    return arguments, [queues[call].pop(0) for call in order]


@given(interleavings())
def test_any_interleaving_gives_each_call_whole(case: tuple[list[str], list[ToolPart]]) -> None:
    arguments, parts = case
    got = shape(run(*parts))
    assert sorted(content for _, _, content in got) == sorted(arguments)


@given(
    st.recursive(
        st.text(st.sampled_from('a"\\\\{}[]\\n')), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ),
    st.lists(st.integers(0, 200), max_size=5),
    st.sampled_from(["", "}", " }\n", '{"b":2}']),
)
def test_arguments_end_where_their_outermost_bracket_closes(value: object, places: list[int], surplus: str) -> None:
    whole = json.dumps({"a": value})
    text = whole + surplus
    edges = [0, *sorted(place % len(text) for place in places), len(text)]
    parts = [part(0, "", "f"), *(part(0, text[a:b]) for a, b in pairwise(edges))]
    assert shape(run(*parts)) == [("tool_use", "f", whole)]


def test_recorded_parallel_calls_come_out_whole() -> None:
    events = [event for event in decode(recorded("tools_three.sse")) if isinstance(event, ToolPart)]
    first, second, third = (content for _, _, content in shape(run(*events)))
    assert json.loads(first, strict=False).keys() == json.loads(second, strict=False).keys() == {"path", "limit"}
    assert third.rstrip().endswith(",")


ANY = st.lists(
    st.builds(Thinking, st.text(max_size=3))
    | st.builds(Text, st.text(max_size=3))
    | st.builds(
        ToolPart,
        st.integers(0, 2),
        st.none() | st.just("c"),
        st.none() | st.just("f"),
        st.sampled_from(["", "{", "}", " "]),
    ),
    max_size=20,
)


@given(ANY)
def test_blocks_are_sequential_whatever_comes(events: list[Thinking | Text | ToolPart]) -> None:
    got = shape(run(*events))
    thought = "".join(content for kind, _, content in got if kind == "thinking")
    assert thought == "".join(event.text for event in events if isinstance(event, Thinking)) or not thought.strip()
