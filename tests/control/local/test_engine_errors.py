from __future__ import annotations

import json

import pytest

from control.local.engine_errors import DEAD, ApiError, engine_dead, invalid, total_too_long, unknown_model


@pytest.mark.parametrize("error", [engine_dead(), unknown_model("x", ("a", "b")), invalid("t", "f", "why", {"k": "é"})])
def test_a_body_and_a_record_say_the_same(error: ApiError) -> None:
    body = json.loads(error.body())
    record = error.record().decode()
    assert record.endswith("\n\n")
    assert json.loads(record.removeprefix("data: ")) == body
    assert body["error"] == {
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.status,
    }


def test_the_record_of_a_dead_engine_is_byte_for_byte_the_recorded_one() -> None:
    # data: line of a stream that was running when EngineCore was killed (vLLM 0.32).
    error = {"message": DEAD, "type": "InternalServerError", "param": None, "code": 500}
    assert engine_dead().record() == f"data: {json.dumps({'error': error})}\n\n".encode()


def test_aliases_are_named_only_where_there_are_some() -> None:
    assert unknown_model("x", ("a",)).message == "The model `x` does not exist."
    assert unknown_model("x", ("a", "b")).message == "The model `x` does not exist. Valid aliases: a, b."


def test_a_total_over_the_window_counts_up_to_the_first_token_too_many() -> None:
    message = total_too_long(8192, 900).message
    assert "at least 7293 input tokens, for a total of at least 8193 tokens" in message


def test_text_that_is_not_utf8_does_not_break_an_answer() -> None:
    assert b"?" in ApiError(400, "lone \ud800", "BadRequestError").body()
