from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.local.engine_request import Ask, Model, chat, completion
from control.local.engine_tokens import Tokens
from control.local.engine_wire import Cached, Encoder, Envelope
from tests.control.local.simulated import chunks, recorded, recorded_request, scripted, shape

MODEL = Model(("tiny-qwen",), 8192, Tokens(4))
TOOL = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
ENVELOPE = Envelope("chatcmpl-1", 1795956985, "tiny-qwen", "vllm-x")
HIT = Cached(hit=16, created=32)


def streamed(ask: Ask, sizes: list[int] | None = None) -> str:
    """The whole stream, `sizes` tokens at a time (one by one by default)."""
    encoder = Encoder(ask, ENVELOPE)
    pieces = list(ask.answer.pieces)
    out = b""
    while pieces:
        size = sizes.pop(0) if sizes else 1
        now, pieces = pieces[:size], pieces[size:]
        out += encoder.stream(now, HIT)
    return out.decode()


def kinds(stream: str) -> set[str]:
    """The different chunks of a stream, as JSON shapes."""
    return {json.dumps(shape(chunk)) for chunk in chunks(stream)}


@pytest.mark.parametrize(
    "name",
    ["plain_stream", "plain_stream_continuous_usage", "reasoning_stream", "tool_named_stream", "stop_seq_stream"],
)
def test_chunks_have_exactly_the_keys_of_real_vllm_in_their_order(name: str) -> None:
    body = recorded_request(name)
    if name == "stop_seq_stream":
        body["messages"] = scripted({"text": "SIxxyyze"})
    if name == "tool_named_stream":  # recorded with thinking off; a call in between
        body["messages"] = scripted({"tools": [{"name": "read_file", "input": {"path": "abcdefgh"}}]})
    assert kinds(streamed(chat(body, MODEL))) == kinds(recorded(name)[2])


def test_a_completion_streams_as_real_vllm_does() -> None:
    body = recorded_request("completions_stream")
    assert kinds(streamed(completion(body, MODEL))) == kinds(recorded("completions_stream")[2])


@pytest.mark.parametrize("name", ["plain_nonstream", "reasoning_nonstream", "tool_named_nonstream"])
def test_whole_bodies_have_exactly_the_keys_of_real_vllm_in_their_order(name: str) -> None:
    ask = chat(recorded_request(name), MODEL)
    body = Encoder(ask, ENVELOPE).whole(HIT)
    assert shape(json.loads(body)) == shape(json.loads(recorded(name)[2]))


def deltas(stream: str) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks(stream) if chunk != "[DONE]" and chunk["choices"]]


@given(st.lists(st.integers(1, 9), max_size=40))
def test_however_tokens_bunch_up_the_client_reads_the_same(sizes: list[int]) -> None:
    script = {
        "thinking": "let me see",
        "text": 'naïve ☃ "quoted"\n',
        "tools": [{"name": "read_file", "input": {"a": "é"}}, {"name": "read_file", "input": {}}],
    }
    body = {"messages": scripted(script), "tools": [TOOL], "stream": True, "stream_options": {"include_usage": True}}
    stream = streamed(chat(body, MODEL), list(sizes))
    read = deltas(stream)
    assert "".join(delta.get("reasoning") or "" for delta in read) == "let me see"
    assert "".join(delta.get("content") or "" for delta in read) == 'naïve ☃ "quoted"\n'
    calls: dict[int, dict[str, str]] = {}
    for fragment in (call for delta in read for call in delta.get("tool_calls", [])):
        call = calls.setdefault(fragment["index"], {"arguments": ""})
        call |= {key: fragment[key] for key in ("id",) if key in fragment}
        call["name"] = fragment["function"].get("name", call.get("name", ""))
        call["arguments"] += fragment["function"].get("arguments", "")
    assert [(call["name"], json.loads(call["arguments"])) for call in calls.values()] == [
        ("read_file", {"a": "é"}),
        ("read_file", {}),
    ]
    assert len({call["id"] for call in calls.values()}) == 2
    last, done = chunks(stream)[-2:]
    assert done == "[DONE]"
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 16, "created_cache_tokens": 32}
    assert last["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}
    assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + last["usage"]["completion_tokens"]
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in chunks(stream)[:-2]]
    assert [reason for reason in finishes if reason] == ["tool_calls"]


def test_continuous_usage_counts_every_token_silent_ones_too() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"messages": scripted({"thinking": 2, "text": 2}), "stream": True, "stream_options": options}
    seen = [chunk["usage"]["completion_tokens"] for chunk in chunks(streamed(chat(body, MODEL)))[:-1]]
    assert seen == [0, 1, 2, 4, 5, 6, 6]


def test_reasoning_is_left_out_when_the_client_says_so_and_still_counted() -> None:
    body = {"messages": scripted({"thinking": 5, "text": "Hi"}), "include_reasoning": False}
    whole = json.loads(Encoder(chat(body, MODEL), ENVELOPE).whole(None))
    assert whole["choices"][0]["message"]["reasoning"] is None
    assert whole["usage"]["completion_tokens_details"] == {"reasoning_tokens": 5}
    stream = streamed(chat(body | {"stream": True}, MODEL))
    assert not any("reasoning" in delta for delta in deltas(stream))


def test_without_include_usage_no_usage_is_sent() -> None:
    stream = streamed(chat({"messages": scripted({"text": 1}), "stream": True}, MODEL))
    assert "usage" not in stream
    assert stream.endswith("data: [DONE]\n\n")
