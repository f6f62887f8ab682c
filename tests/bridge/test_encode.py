from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bridge.decode import Usage
from bridge.encode import (
    PING,
    Fold,
    Sent,
    block_delta,
    block_start,
    block_stop,
    frame,
    message_end,
    message_start,
    usage_json,
)
from tests.bridge.chunks import events

NONE = Usage(1, None, 2)


@given(st.text(), st.integers(0, 99))
def test_every_frame_is_one_event_whatever_the_text(text: str, index: int) -> None:
    sent = [
        message_start("msg_1", text, NONE),
        block_start(index, "tool_use", text, text),
        block_delta(index, "tool_use", text),
        block_delta(index, "text", text),
        block_delta(index, "thinking", text),
        *block_stop(index, "thinking", "msg_1"),
        *message_end("stop_sequence", text, NONE),
    ]
    got = events(b"".join(map(frame, sent)) + PING)
    assert len(got) == 10
    assert [data["delta"].get("text") for name, data in got if name == "content_block_delta"].count(text) == 1
    assert got[0][1]["message"]["model"] == text


@given(st.text())
def test_one_message_has_the_text_as_it_was(text: str) -> None:
    fold = Fold()
    blocks = [block_start(0, "text", "", ""), *[block_delta(0, "text", text)] * 2, *block_stop(0, "text", "msg_1")]
    sent: list[Sent] = [message_start("msg_1", "m", NONE), *blocks, *message_end("end_turn", None, NONE)]
    *before, last = sent
    assert {fold.take(event) for event in before} == {b""}
    assert json.loads(fold.take(last))["content"] == [{"type": "text", "text": text * 2}]


def test_cached_tokens_are_never_more_than_the_prompt() -> None:
    assert usage_json(Usage(5, 9, 1))["input_tokens"] == 0
    assert usage_json(Usage(5, None, 1))["cache_read_input_tokens"] == 0


def test_signatures_differ_and_are_stable() -> None:
    def signature(index: int) -> str:
        signed, _ = block_stop(index, "thinking", "msg_1")
        return str(signed["delta"]["signature"])

    assert signature(0) == signature(0) != signature(1)
    assert signature(0)
