from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bridge.blocks import Closed, Opened, Piece
from bridge.encode import PING, MessageEncoder, StreamEncoder, error_event, signature, usage_json
from bridge.errors import EngineBusy
from bridge.events import Usage
from tests.bridge.chunks import events


@given(st.text(), st.integers(0, 99))
def test_every_frame_is_one_event_whatever_the_text(text: str, index: int) -> None:
    encoder = StreamEncoder("msg_1", text)
    body = (
        encoder.start(Usage(1, None, 0))
        + encoder.block(Opened(index, "tool_use", text, text))
        + encoder.block(Piece(index, "tool_use", text))
        + encoder.block(Piece(index, "text", text))
        + encoder.block(Piece(index, "thinking", text))
        + encoder.block(Closed(index, "thinking"))
        + encoder.end("stop_sequence", text, Usage(1, None, 0))
        + PING
        + error_event(EngineBusy(text), "req_1")
    )
    got = events(body)
    assert len(got) == 11
    assert [data["delta"].get("text") for name, data in got if name == "content_block_delta"].count(text) == 1
    assert got[0][1]["message"]["model"] == text


@given(st.text())
def test_one_message_has_the_text_as_it_was(text: str) -> None:
    encoder = MessageEncoder("msg_1", "m")
    for event in (Opened(0, "text"), Piece(0, "text", text), Piece(0, "text", text), Closed(0, "text")):
        assert encoder.block(event) == b""
    assert json.loads(encoder.end("end_turn", None, Usage(1, None, 2)))["content"] == [
        {"type": "text", "text": text * 2}
    ]


def test_cached_tokens_are_never_more_than_the_prompt() -> None:
    assert usage_json(Usage(5, 9, 1))["input_tokens"] == 0
    assert usage_json(Usage(5, None, 1))["cache_read_input_tokens"] == 0


def test_signatures_differ_and_are_stable() -> None:
    assert signature("msg_1", 0) == signature("msg_1", 0) != signature("msg_1", 1)
