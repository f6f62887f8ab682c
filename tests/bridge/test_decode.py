from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.decode import Decoder, Kind, Part, Splitter, data_of
from bridge.errors import BridgeError, EngineBroken, EngineBusy, PromptTooLong
from bridge.report import Turn
from tests.bridge.chunks import chunk, recorded, tool, usage


class Decoded(list[Part]):
    """The parts of a stream, and what else was said: tokens (prompt, cached, output) after each record, and the end."""

    def __init__(self, *records: bytes) -> None:
        super().__init__()
        turn = Turn("msg_1", "s", "main", "m")
        decoder, self.counts = Decoder(turn), list[tuple[int | None, int | None, int]]()
        for record in records:
            self += decoder.read(record)
            self.counts.append((turn.input_tokens, turn.cached_tokens, turn.output_tokens))
        self.finish = (decoder.reason, decoder.stop)


def decode(stream: bytes) -> Decoded:
    splitter = Splitter()
    return Decoded(*(data for record in (*splitter.feed(stream), splitter.rest) if (data := data_of(record))))


def parts(decoded: list[Part], kind: Kind) -> list[Part]:
    return [part for part in decoded if part.kind == kind]


def text_of(decoded: list[Part], kind: Kind) -> str:
    return "".join(part.text for part in parts(decoded, kind))


def test_recorded_plain_stream_with_usage_on_every_chunk() -> None:
    events = decode(recorded("plain_usage.sse"))
    assert events.counts[0] == (48, None, 0)
    assert text_of(events, "text").startswith("SIreppt +=")
    assert events.finish == ("length", None)
    assert events.counts[-1] == (48, 0, 24)


def test_recorded_reasoning_then_text() -> None:
    events = decode(recorded("reasoning_then_text.sse"))
    kinds = [event.kind for event in events]
    assert kinds == sorted(kinds, key=lambda kind: kind == "text")
    assert text_of(events, "thinking")
    assert text_of(events, "text")


def test_recorded_stop_string() -> None:
    assert decode(recorded("stop_string.sse")).finish == ("stop", "e")


def test_recorded_tools() -> None:
    events = decode(recorded("tools_three.sse"))
    calls = parts(events, "tool_use")
    assert {part.call for part in calls} == {0, 1, 2}
    for call in (0, 1, 2):
        own = [part for part in calls if part.call == call]
        assert own[0].name == "read_file"
        assert "".join(part.text for part in own).startswith("{")


def test_recorded_whole_answer() -> None:
    whole = Decoded(recorded("tool_named_whole.json"))
    assert whole == [Part("tool_use", "-Infinity", 0, "chatcmpl-tool-bf34d6b2a290ecc7", "read_file")]
    assert (whole.counts, whole.finish) == ([(310, 256, 56)], ("stop", None))


def test_both_reasoning_fields_in_one_delta_count_once() -> None:
    assert decode(chunk({"reasoning": "a", "reasoning_content": "a"})) == [Part("thinking", "a")]
    assert decode(chunk({"reasoning_content": "b"})) == [Part("thinking", "b")]


def test_reasoning_and_content_in_one_delta_are_both_kept_in_order() -> None:
    assert decode(chunk({"content": "Ans", "reasoning": "k."})) == [Part("thinking", "k."), Part("text", "Ans")]


def test_other_choices_are_ignored() -> None:
    data = json.dumps(
        {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}
    )
    assert Decoded(data.encode()) == [Part("text", "yes")]


def test_a_new_id_on_the_same_index_is_another_call() -> None:
    stream = [
        chunk({"tool_calls": [tool(0, '{"a":1}', "f", "c1")]}),
        chunk({"tool_calls": [tool(0, "", None, "c1")]}),
        chunk({"tool_calls": [tool(0, '{"a":2}', "f", "c2")]}),
        chunk({"tool_calls": [tool(0, " ")]}),
    ]
    calls = [part.call for part in decode(b"".join(stream))]
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
        Decoded(json.dumps(error).encode())


def test_an_overflow_inside_the_stream_has_the_clients_wording() -> None:
    message = (
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens,"
        " which exceeds this limit even without any output tokens."
    )
    with pytest.raises(PromptTooLong):
        Decoded(json.dumps({"error": {"message": message, "code": 400}}).encode())


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
        Decoded(json.dumps(value).encode())


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_our_error(data: bytes) -> None:
    with contextlib.suppress(BridgeError):
        Decoded(data)


def test_usage_with_null_counts() -> None:
    data = json.dumps({"usage": {**usage(0, 0), "prompt_tokens": None}}).encode()
    assert Decoded(data).counts == [(0, None, 0)]


def test_anthropics_prompt_is_what_was_read_from_the_cache_written_to_it_and_neither() -> None:
    """vLLM 0.32, an answer in one piece: its stream of the same prompt counts nothing as written."""
    counted = {
        "input_tokens": 124,
        "output_tokens": 2,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 384,
    }
    assert Decoded(json.dumps({"type": "message", "usage": counted}).encode()).counts == [(508, 0, 2)]


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
