from __future__ import annotations

import json

import pytest

from bridge.support import PLAIN, conclude, questions, suits

ANSWER = json.dumps({"choices": [{"message": {"content": "a", "reasoning": None}}]}).encode()


def test_each_question_is_the_least_request_and_one_feature() -> None:
    asked = questions("m")
    least = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    assert asked[PLAIN] == ("/v1/chat/completions", least)
    assert asked["thinking_token_budget"][1] == {**least, "thinking_token_budget": 16}
    assert (asked["native"][0], asked["tokenize"][0]) == ("/v1/messages", "/tokenize")
    assert {path for path, _ in asked.values()} == {"/v1/chat/completions", "/v1/messages", "/tokenize"}
    assert all("path" not in body for _, body in asked.values())
    assert questions("m") == questions("m")


@pytest.mark.parametrize(("status", "takes"), [(200, True), (400, False), (404, False), (500, False), (503, True)])
def test_an_error_means_that_the_engine_does_not_take_it(status: int, takes: bool) -> None:
    supports = conclude({PLAIN: (200, ANSWER), "top_k": (status, b"")})
    assert supports is not None
    assert supports["top_k"] is takes
    assert PLAIN not in supports
    assert supports.get("image", True)


def test_nothing_is_learned_from_an_engine_that_does_not_answer() -> None:
    assert conclude({}) is None
    assert conclude({PLAIN: (503, b""), "top_k": (400, b"")}) is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (ANSWER, "reasoning"),
        (ANSWER.replace(b"reasoning", b"reasoning_content"), "reasoning_content"),
        (b'{"choices": []}', "reasoning"),
        (b"[]", "reasoning"),
        (b"<", "reasoning"),
    ],
)
def test_the_field_of_thoughts_is_the_engines_own(body: bytes, field: str) -> None:
    assert conclude({PLAIN: (200, body)}) == {"reasoning_content": field == "reasoning_content"}


def test_what_is_said_of_an_engine() -> None:
    assert "no /v1/messages" in suits({"native": False})
    assert "native works too" in suits({"native": True})
