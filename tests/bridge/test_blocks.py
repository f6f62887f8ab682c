from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bridge.arguments import Guard, as_json
from bridge.blocks import PING, Blocks, Sent, frame, message, message_delta
from bridge.decode import Part
from bridge.report import Turn
from tests.bridge.chunks import events, recorded
from tests.bridge.test_decode import decode, parts

OFF = Guard("off")
FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
KINDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}


def run(*events: Part, complete: bool = True, guard: Guard = OFF) -> list[Sent]:
    blocks = Blocks("msg_1", guard)
    return [out for event in events for out in blocks.take(event)] + blocks.finish(complete)


def shape(events: list[Sent]) -> list[tuple[str, str, str]]:
    """(kind, name, content) of each block; asserts one open at a time, opened and closed once, contiguous."""
    out: list[tuple[str, str, str]] = []
    current: Sent | None = None
    content = ""
    for event in events:
        assert event["index"] == len(out)
        if event["type"] == "content_block_start":
            assert current is None
            current, content = event["content_block"], ""
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            assert current is not None
            assert KINDS.get(delta["type"], "thinking") == current["type"]
            content += delta.get(FIELDS.get(delta["type"]), "")
        else:
            assert event["type"] == "content_block_stop"
            assert current is not None
            out.append((current["type"], current.get("name", ""), content))
            current = None
    assert current is None
    return out


def part(call: int, arguments: str, name: str = "") -> Part:
    return Part("tool_use", arguments, call, f"c{call}" if name else "", name)


def text(words: str) -> Part:
    return Part("text", words)


def thinking(words: str) -> Part:
    return Part("thinking", words)


def started(index: int, call_id: str, name: str) -> Sent:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def stopped(index: int) -> Sent:
    return {"type": "content_block_stop", "index": index}


def test_thinking_text_tool() -> None:
    got = run(thinking("a"), thinking("b"), text("c"), part(0, "", "f"), part(0, "{}"))
    assert shape(got) == [("thinking", "", "ab"), ("text", "", "c"), ("tool_use", "f", "{}")]


def test_interleaved_calls_are_held_and_replayed() -> None:
    got = run(part(0, '{"x":', "A"), part(1, '{"y":', "B"), part(0, "1}"), part(1, "2}"))
    assert shape(got) == [("tool_use", "A", '{"x":1}'), ("tool_use", "B", '{"y":2}')]


def test_a_second_call_streams_as_soon_as_the_first_is_whole() -> None:
    blocks = Blocks("msg_1", OFF)
    blocks.take(part(0, '{"x":1}', "A"))
    assert blocks.take(part(1, '{"y":', "B")) == [
        stopped(0),
        started(1, "c1", "B"),
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"y":'}},
    ]


def test_text_after_an_open_call_waits_for_it() -> None:
    got = run(part(0, '{"x":', "A"), text("after"), part(0, "1}"))
    assert shape(got) == [("tool_use", "A", '{"x":1}'), ("text", "", "after")]


def test_blank_text_between_calls_makes_no_block_and_leading_blanks_are_kept() -> None:
    got = run(thinking("t"), text("\n\n"), part(0, "{}", "A"), text("\n"), part(1, "{}", "B"), text(" \n"), text("x"))
    assert [kind for kind, _, _ in shape(got)] == ["thinking", "tool_use", "tool_use", "text"]
    assert shape(got)[-1] == ("text", "", " \nx")


def test_a_call_is_opened_with_its_name_even_when_it_comes_late() -> None:
    got = run(Part("tool_use", '{"a"', 0, "c0", ""), Part("tool_use", ":1}", 0, "", "f"))
    assert got[0] == started(0, "c0", "f")
    assert shape(got) == [("tool_use", "f", '{"a":1}')]


def test_a_call_without_an_id_gets_one() -> None:
    (opened, *_) = run(Part("tool_use", "{}", 0, "", "f"))
    assert opened["content_block"]["id"].startswith("toolu_")


def test_abandon_closes_only_what_is_open() -> None:
    blocks = Blocks("msg_1", OFF)
    blocks.take(part(0, '{"x":', "A"))
    blocks.take(text("held"))
    assert blocks.abandon() == [stopped(0)]
    assert blocks.finish(complete=True) == []


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[list[str], list[Part]]:
    """Calls with object arguments, cut anywhere, in any order that keeps each call's own order."""
    arguments = [json.dumps(draw(st.dictionaries(st.text(max_size=3), st.integers(), max_size=2))) for _ in range(3)]
    queues = []
    for call, text in enumerate(arguments):
        at = draw(st.integers(0, len(text)))
        queues.append([part(call, text[:at], "f"), part(call, text[at:])])
    order = draw(st.permutations([0, 0, 1, 1, 2, 2]))
    return arguments, [queues[call].pop(0) for call in order]


@given(interleavings())
def test_any_interleaving_gives_each_call_whole(case: tuple[list[str], list[Part]]) -> None:
    arguments, cut = case
    got = shape(run(*cut))
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
    sent = whole + surplus
    edges = [0, *sorted(place % len(sent) for place in places), len(sent)]
    cut = [part(0, "", "f"), *(part(0, sent[a:b]) for a, b in pairwise(edges))]
    assert shape(run(*cut)) == [("tool_use", "f", whole)]


def test_recorded_parallel_calls_come_out_whole() -> None:
    calls = parts(decode(recorded("tools_three.sse")), "tool_use")
    first, second, third = (content for _, _, content in shape(run(*calls, complete=False)))
    assert json.loads(first).keys() == json.loads(second).keys() == {"path", "limit"}
    assert third.rstrip().endswith(",")


def test_what_was_held_is_sent_as_soon_as_the_call_before_it_is_whole() -> None:
    blocks = Blocks("msg_1", OFF)
    blocks.take(part(0, '{"x":', "A"))
    assert blocks.take(text("held")) == []
    assert [out["type"] for out in blocks.take(part(0, "1}"))] == [
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
    ]


def test_what_comes_late_for_a_call_that_ended_does_not_cut_the_text_after_it() -> None:
    got = run(part(0, "{}", "f"), text("a"), part(0, "}"), text("b"))
    assert shape(got) == [("tool_use", "f", "{}"), ("text", "", "ab")]


ANY = st.lists(
    st.builds(thinking, st.text(max_size=3))
    | st.builds(text, st.text(max_size=3))
    | st.builds(
        Part,
        st.just("tool_use"),
        st.sampled_from(["", "{", "}", " "]),
        st.integers(0, 2),
        st.sampled_from(["", "c"]),
        st.sampled_from(["", "f"]),
    ),
    max_size=20,
)


@given(ANY)
def test_blocks_are_sequential_whatever_comes(events: list[Part]) -> None:
    got = shape(run(*events))
    thought = "".join(content for kind, _, content in got if kind == "thinking")
    said = "".join(one.text for one in events if one.kind == "thinking")
    assert "".join(thought.split()) == "".join(said.split())  # a block of blanks alone is left out


def counted(prompt: int, cached: int | None, output: int, model: str = "m") -> Turn:
    return Turn("msg_1", "s", "main", model, input_tokens=prompt, cached_tokens=cached, output_tokens=output)


NONE = counted(1, None, 2)


@given(st.text(), st.text())
def test_every_frame_is_one_event_whatever_the_text(words: str, name: str) -> None:
    said = f"x{words}"
    sent = [
        {"type": "message_start", "message": message(counted(1, None, 2, model=words), [])},
        *run(thinking(said), text(said), Part("tool_use", json.dumps({"a": words}), 0, f"c{name}", f"f{name}")),
        message_delta(NONE, "stop_sequence", words),
    ]
    got = events(b"".join(map(frame, sent)) + PING)
    assert len(got) == len(sent) + 1
    deltas = [data["delta"] for event, data in got if event == "content_block_delta"]
    assert [delta["type"] for delta in deltas] == [
        "thinking_delta",
        "signature_delta",
        "text_delta",
        "input_json_delta",
    ]
    assert deltas[0]["thinking"] == deltas[2]["text"] == said
    opened = [data["content_block"] for event, data in got if event == "content_block_start"]
    assert (opened[2]["id"], opened[2]["name"]) == (f"c{name}", f"f{name}")
    assert got[0][1]["message"]["model"] == words


def test_a_message_has_every_field_that_anthropics_has() -> None:
    content = [{"type": "text", "text": "a"}]
    assert json.loads(as_json(message(counted(10, 4, 2), content, stop_reason="end_turn"))) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 2,
        },
    }


def test_cached_tokens_are_never_more_than_the_prompt() -> None:
    assert message_delta(counted(5, 9, 1))["usage"]["input_tokens"] == 0
    assert message_delta(counted(5, None, 1))["usage"]["cache_read_input_tokens"] == 0


def test_signatures_differ_and_are_stable() -> None:
    def signatures() -> list[str]:
        deltas = [event["delta"] for event in run(thinking("a"), text("b"), thinking("c")) if "delta" in event]
        return [delta["signature"] for delta in deltas if delta["type"] == "signature_delta"]

    first, second = signatures()
    assert [first, second] == signatures()
    assert first != second
    assert first
