from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.decode import Decoder
from bridge.errors import EngineBroken, EngineBusy, PromptTooLong
from bridge.events import Done, Event, Failed, Finish, Text, Thinking, ToolPart, Usage
from bridge.sse import Splitter
from tests.bridge.chunks import chunk, recorded, tool, usage


def decode(stream: bytes) -> list[Event]:
    splitter, decoder = Splitter(), Decoder()
    records = [*splitter.feed(stream), *splitter.eof()]
    return [event for record in records for event in decoder.record(record)]


def text_of(events: list[Event], kind: type[Text] | type[Thinking]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def test_recorded_plain_stream_with_usage_on_every_chunk() -> None:
    events = decode(recorded("plain_usage.sse"))
    assert events[0] == Usage(48, None, 0)
    assert text_of(events, Text).startswith("SIreppt +=")
    assert Finish("length", None) in events
    assert [event for event in events if isinstance(event, Usage)][-1] == Usage(48, 0, 24)
    assert events[-1] == Done()


def test_recorded_reasoning_then_text() -> None:
    events = decode(recorded("reasoning_then_text.sse"))
    kinds = [type(event) for event in events if isinstance(event, Thinking | Text)]
    assert kinds == sorted(kinds, key=lambda kind: kind is Text)
    assert text_of(events, Thinking)
    assert text_of(events, Text)


def test_recorded_stop_string() -> None:
    assert Finish("stop", "e") in decode(recorded("stop_string.sse"))


def test_recorded_tools() -> None:
    events = decode(recorded("tools_three.sse"))
    parts = [event for event in events if isinstance(event, ToolPart)]
    assert sorted({part.call for part in parts}) == [0, 1, 2]
    for call in (0, 1, 2):
        own = [part for part in parts if part.call == call]
        assert own[0].name == "read_file"
        assert "".join(part.arguments for part in own).startswith("{")


def test_recorded_whole_answer() -> None:
    events = Decoder().record(recorded("tool_named_whole.json"))
    assert events == [
        Usage(310, 256, 56),
        ToolPart(0, "chatcmpl-tool-bf34d6b2a290ecc7", "read_file", "-Infinity"),
        Finish("stop", None),
    ]


def test_both_reasoning_fields_in_one_delta_count_once() -> None:
    assert decode(chunk({"reasoning": "a", "reasoning_content": "a"})) == [Thinking("a")]
    assert decode(chunk({"reasoning_content": "b"})) == [Thinking("b")]


def test_reasoning_and_content_in_one_delta_are_both_kept_in_order() -> None:
    assert decode(chunk({"content": "Ans", "reasoning": "k."})) == [Thinking("k."), Text("Ans")]


def test_other_choices_are_ignored() -> None:
    data = json.dumps(
        {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}
    )
    assert Decoder().record(data.encode()) == [Text("yes")]


def test_a_new_id_on_the_same_index_is_another_call() -> None:
    decoder = Decoder()
    stream = [
        chunk({"tool_calls": [tool(0, '{"a":1}', "f", "c1")]}),
        chunk({"tool_calls": [tool(0, "", None, "c1")]}),
        chunk({"tool_calls": [tool(0, '{"a":2}', "f", "c2")]}),
        chunk({"tool_calls": [tool(0, " ")]}),
    ]
    calls = [event.call for data in stream for event in decoder.record(data[6:].strip()) if isinstance(event, ToolPart)]
    assert calls == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "queue full", "type": "ServiceUnavailable", "code": 503}},
        {"object": "error", "message": "queue full", "code": 503},
        {"error": {"message": "queue full", "code": "503"}},
    ],
)
def test_an_error_object_inside_the_stream(error: dict[str, Any]) -> None:
    (event,) = Decoder().record(json.dumps(error).encode())
    assert isinstance(event, Failed)
    assert isinstance(event.error, EngineBusy)
    assert event.error.message == "queue full"


def test_an_overflow_inside_the_stream_has_the_clients_wording() -> None:
    message = (
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens,"
        " which exceeds this limit even without any output tokens."
    )
    (event,) = Decoder().record(json.dumps({"error": {"message": message, "code": 400}}).encode())
    assert isinstance(event, Failed)
    assert isinstance(event.error, PromptTooLong)


KEYS = ("choices", "delta", "message", "content", "tool_calls", "function", "index", "id", "usage", "error", "code")
MORE = ("arguments", "name", "prompt_tokens_details", "finish_reason", "stop_reason", "object")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.just("error"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from((*KEYS, *MORE)),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_events_or_our_error(value: object) -> None:
    with contextlib.suppress(EngineBroken):
        Decoder().record(json.dumps(value).encode())


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_our_error(data: bytes) -> None:
    with contextlib.suppress(EngineBroken):
        Decoder().record(data)


def test_usage_with_null_counts() -> None:
    assert Decoder().record(json.dumps({"usage": {**usage(0, 0), "prompt_tokens": None}}).encode()) == [
        Usage(0, None, 0)
    ]
