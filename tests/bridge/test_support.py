from __future__ import annotations

import json

import pytest

from bridge.support import PLAIN, Support, conclude, questions, suits

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
    support = conclude({PLAIN: (200, ANSWER), "top_k": (status, b"")})
    assert support is not None
    assert ("top_k" in support) is takes
    assert "image" in support


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
    assert conclude({PLAIN: (200, body)}) == Support(reasoning=field)


def test_what_is_said_of_an_engine() -> None:
    support = Support(frozenset({"native", "top_k"}))
    assert support.by_feature()["native"] is support.by_feature()["top_k"] is False
    assert support.by_feature()["image"] is True
    assert PLAIN not in support.by_feature()
    assert "no /v1/messages" in suits(support)
    assert "native works too" in suits(Support())
