from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.decode import Decoder, End, Event, Finish, Kind, Part, Usage
from bridge.errors import BridgeError, EngineBusy, PromptTooLong
from bridge.sse import Splitter, data_of
from tests.bridge.chunks import chunk, recorded, tool, usage


def decode(stream: bytes) -> list[Event]:
    splitter, decoder = Splitter(), Decoder()
    records = [data for record in (*splitter.feed(stream), splitter.rest) if (data := data_of(record))]
    return [event for record in records for event in decoder.record(record) if event != End()]


def parts(events: list[Event], kind: Kind) -> list[Part]:
    return [event for event in events if isinstance(event, Part) and event.kind == kind]


def text_of(events: list[Event], kind: Kind) -> str:
    return "".join(part.text for part in parts(events, kind))


def test_recorded_plain_stream_with_usage_on_every_chunk() -> None:
    events = decode(recorded("plain_usage.sse"))
    assert events[0] == Usage(48, None, 0)
    assert text_of(events, "text").startswith("SIreppt +=")
    assert Finish("length", None) in events
    assert [event for event in events if isinstance(event, Usage)][-1] == Usage(48, 0, 24)


def test_recorded_reasoning_then_text() -> None:
    events = decode(recorded("reasoning_then_text.sse"))
    kinds = [event.kind for event in events if isinstance(event, Part)]
    assert kinds == sorted(kinds, key=lambda kind: kind == "text")
    assert text_of(events, "thinking")
    assert text_of(events, "text")


def test_recorded_stop_string() -> None:
    assert Finish("stop", "e") in decode(recorded("stop_string.sse"))


def test_recorded_tools() -> None:
    events = decode(recorded("tools_three.sse"))
    calls = parts(events, "tool_use")
    assert {part.call for part in calls} == {0, 1, 2}
    for call in (0, 1, 2):
        own = [part for part in calls if part.call == call]
        assert own[0].name == "read_file"
        assert "".join(part.text for part in own).startswith("{")


def test_recorded_whole_answer() -> None:
    assert [*Decoder().record(recorded("tool_named_whole.json"))] == [
        Usage(310, 256, 56),
        Part("tool_use", "-Infinity", 0, "chatcmpl-tool-bf34d6b2a290ecc7", "read_file"),
        Finish("stop", None),
    ]


def test_both_reasoning_fields_in_one_delta_count_once() -> None:
    assert decode(chunk({"reasoning": "a", "reasoning_content": "a"})) == [Part("thinking", "a")]
    assert decode(chunk({"reasoning_content": "b"})) == [Part("thinking", "b")]


def test_reasoning_and_content_in_one_delta_are_both_kept_in_order() -> None:
    assert decode(chunk({"content": "Ans", "reasoning": "k."})) == [Part("thinking", "k."), Part("text", "Ans")]


def test_other_choices_are_ignored() -> None:
    data = json.dumps(
        {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}
    )
    assert [*Decoder().record(data.encode())] == [Part("text", "yes")]


def test_a_new_id_on_the_same_index_is_another_call() -> None:
    decoder = Decoder()
    stream = [
        chunk({"tool_calls": [tool(0, '{"a":1}', "f", "c1")]}),
        chunk({"tool_calls": [tool(0, "", None, "c1")]}),
        chunk({"tool_calls": [tool(0, '{"a":2}', "f", "c2")]}),
        chunk({"tool_calls": [tool(0, " ")]}),
    ]
    calls = [event.call for data in stream for event in decoder.record(data[6:].strip()) if isinstance(event, Part)]
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
    with pytest.raises(EngineBusy, match=r"^queue full$"):
        list(Decoder().record(json.dumps(error).encode()))


def test_an_overflow_inside_the_stream_has_the_clients_wording() -> None:
    message = (
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens,"
        " which exceeds this limit even without any output tokens."
    )
    with pytest.raises(PromptTooLong):
        list(Decoder().record(json.dumps({"error": {"message": message, "code": 400}}).encode()))


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
    with contextlib.suppress(BridgeError):
        list(Decoder().record(json.dumps(value).encode()))


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_our_error(data: bytes) -> None:
    with contextlib.suppress(BridgeError):
        list(Decoder().record(data))


def test_usage_with_null_counts() -> None:
    data = json.dumps({"usage": {**usage(0, 0), "prompt_tokens": None}}).encode()
    assert [*Decoder().record(data)] == [Usage(0, None, 0)]
