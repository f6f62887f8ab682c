from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.errors import (
    BridgeError,
    EngineBroken,
    EngineBusy,
    EngineTimeout,
    InvalidRequest,
    NotFound,
    OutputTooLong,
    PromptTooLong,
    engine_message,
    from_engine,
)
from tests.bridge.recorded import ANSWERS, CASES

ANTHROPIC = {
    400: {"invalid_request_error"},
    401: {"authentication_error"},
    403: {"permission_error"},
    404: {"not_found_error"},
    405: {"invalid_request_error"},
    409: {"conflict_error"},
    413: {"request_too_large"},
    500: {"api_error"},
    503: {"api_error"},
    504: {"timeout_error"},
    529: {"overloaded_error"},
}


def tree(kind: type[BridgeError]) -> Iterator[type[BridgeError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


@pytest.mark.parametrize("kind", [*tree(BridgeError)], ids=lambda kind: kind.__name__)
def test_every_error_has_a_type_that_its_status_allows(kind: type[BridgeError]) -> None:
    assert kind.type in ANTHROPIC[kind.status]


def test_the_envelope() -> None:
    assert json.loads(NotFound("gone").envelope("req_1")) == {
        "type": "error",
        "error": {"type": "not_found_error", "message": "gone"},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    "message",
    [
        # vLLM 0.32, recorded.
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens,"
        " which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
        " (parameter=input_tokens, value=8193)",
        # vLLM 0.25 with both in one sentence.
        "This model's maximum context length is 8192 tokens. However, you requested 32 output tokens and your prompt"
        " contains at least 8193 input tokens, for a total of at least 8225 tokens.",
        "request (8193 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 8225"
        " tokens: 8193 tokens from the input messages and 32 tokens for the completion.",
        "The input (8193 tokens) is longer than the model's context length (8192 tokens).",
    ],
)
def test_an_overflowing_prompt_is_worded_so_that_claude_code_compacts(message: str) -> None:
    error = from_engine(400, message)
    assert isinstance(error, PromptTooLong)
    assert error.message == "prompt is too long: 8193 tokens > 8192 maximum"


@pytest.mark.parametrize(
    "message",
    [
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9048"
        " tokens: 48 tokens from the input messages and 9000 tokens for the completion.",
        # vLLM 0.32, recorded.
        "max_tokens=9000 cannot be greater than max_model_len=8192. Please request fewer output tokens."
        " (parameter=max_tokens, value=9000)",
        "This model's maximum context length is 131072 tokens. However, you requested 32000 output tokens and your"
        " prompt contains at least 120000 input tokens",
        "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 8192"
        " tokens and your request has 48 input tokens",
        "This model's maximum context length is 8192 tokens. However, you requested 9048 tokens (48 in the messages,"
        " 9000 in the completion).",
    ],
)
def test_only_max_tokens_overflows(message: str) -> None:
    error = from_engine(400, message)
    assert isinstance(error, OutputTooLong)
    exact = "48 tokens" in message or "48 input" in message or "(48 in" in message
    assert error.room == (8192 - 48 - 1 if exact else 0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (404, NotFound),
        (408, EngineTimeout),
        (429, EngineBusy),
        (500, EngineBroken),
        (502, EngineBroken),
        (503, EngineBusy),
        (504, EngineTimeout),
    ],
)
def test_engine_statuses(status: int, kind: type[BridgeError]) -> None:
    assert type(from_engine(status, "x")) is kind
    assert from_engine(status, "").message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"m","code":400}}', "m"),
        (b'{"error":"m"}', "m"),
        (b'{"object":"error","message":"m"}', "m"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"type":"error","error":{"type":"x","message":"m"}}', "m"),
        (b"<html>\n bad  gateway</html>", "<html> bad gateway</html>"),
        (b"", ""),
        (b"[1]", "[1]"),
    ],
)
def test_the_sentence_is_found_in_any_shape(body: bytes, message: str) -> None:
    assert engine_message(body) == message


def test_cases_of_refusals() -> None:
    overflow, busy = CASES["B29"], CASES["B25"]
    error = overflow["upstream_json"]["error"]
    assert isinstance(from_engine(overflow["upstream_status"], error["message"]), OutputTooLong)
    assert from_engine(busy["upstream_status"], busy["upstream_json"]["error"]["message"]).status == 529


REFUSED = [one for one in ANSWERS if one["status"] != 200]


@pytest.mark.parametrize("answer", REFUSED, ids=[one["name"] for one in REFUSED])
def test_every_recorded_refusal_has_a_sentence_and_a_status_of_anthropics(answer: dict[str, Any]) -> None:
    error = from_engine(answer["status"], engine_message(answer["body"].encode()))
    assert "{" not in error.message[:1]
    assert error.type in ANTHROPIC[error.status]
    kind = {"err_prompt_plus_max_tokens": OutputTooLong, "err_prompt_too_long_stream": PromptTooLong}
    kind |= {
        "anthropic_err_too_long": PromptTooLong,
        "err_unknown_model": NotFound,
        "anthropic_err_unknown_model": NotFound,
    }
    assert type(error) is kind.get(answer["name"], InvalidRequest)
