from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bridge.encode import PING, as_json, block_delta, block_start, frame, message, message_delta, signature_delta
from bridge.report import Turn
from tests.bridge.chunks import events


def counted(prompt: int, cached: int | None, output: int, model: str = "m") -> Turn:
    return Turn("msg_1", "s", "main", model, input_tokens=prompt, cached_tokens=cached, output_tokens=output)


NONE = counted(1, None, 2)


@given(st.text(), st.integers(0, 99))
def test_every_frame_is_one_event_whatever_the_text(text: str, index: int) -> None:
    sent = [
        {"type": "message_start", "message": message(counted(1, None, 2, model=text), [])},
        block_start(index, "tool_use", text, text),
        block_delta(index, "tool_use", text),
        block_delta(index, "text", text),
        block_delta(index, "thinking", text),
        signature_delta(index, "msg_1"),
        message_delta(NONE, "stop_sequence", text),
    ]
    got = events(b"".join(map(frame, sent)) + PING)
    assert len(got) == 8
    assert [data["delta"].get("text") for name, data in got if name == "content_block_delta"].count(text) == 1
    assert got[0][1]["message"]["model"] == text


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
    def signature(index: int) -> str:
        return str(signature_delta(index, "msg_1")["delta"]["signature"])

    assert signature(0) == signature(0) != signature(1)
    assert signature(0)
