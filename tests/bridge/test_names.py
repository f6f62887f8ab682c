from __future__ import annotations

import pytest

from bridge.errors import InvalidRequest, NotFound
from bridge.names import Names, plain

SERVED = ("nemotron", "claude-nemotron", "claude-nemotron[1m]")


def test_any_name_is_served_under_the_engines_own() -> None:
    names = Names(SERVED, "serve")
    assert {names.resolve(asked) for asked in ("nemotron", "claude-nemotron[1m]", "claude-opus-5-5")} == {"nemotron"}


def test_unknown_names_may_be_refused() -> None:
    names = Names(SERVED, "refuse")
    assert names.resolve("nemotron[1m]") == names.resolve("claude-nemotron") == "nemotron"
    with pytest.raises(NotFound, match="claude-opus"):
        names.resolve("claude-opus-5-5")


@pytest.mark.parametrize("asked", [None, "", 3, ["m"]])
def test_no_name_is_an_invalid_request(asked: object) -> None:
    with pytest.raises(InvalidRequest, match="model"):
        Names(SERVED, "serve").resolve(asked)


def test_the_mark_is_stripped_once_in_any_case() -> None:
    assert (plain("m[1m]"), plain("m[1M]"), plain("m")) == ("m", "m", "m")


def test_openai_dialect() -> None:
    listed = Names(SERVED, "serve").openai_list(7, 8192)
    assert [model["id"] for model in listed["data"]] == list(SERVED)
    assert listed["data"][0]["max_model_len"] == 8192


def test_anthropic_dialect() -> None:
    listed = Names(SERVED, "serve").anthropic_list("2026-01-01T00:00:00Z", 8192)
    assert [model["id"] for model in listed["data"]] == list(SERVED)
    assert listed["data"][0]["type"] == "model"
    assert listed["data"][0]["max_input_tokens"] == 8192
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, SERVED[0], SERVED[-1])
