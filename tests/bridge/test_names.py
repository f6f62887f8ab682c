from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.integers(1, 12), st.integers(1, 5))
def test_pages_forwards_cover_every_name_once(count: int, limit: int) -> None:
    names = Names(tuple(f"m{i}" for i in range(count)), "serve")
    seen: list[str] = []
    query = {"limit": str(limit)}
    while True:
        page = names.anthropic_list(query, "2026-01-01T00:00:00Z", None)
        seen += [model["id"] for model in page["data"]]
        assert len(page["data"]) <= limit
        if not page["has_more"]:
            break
        query["after_id"] = page["last_id"]
    assert seen == list(names.served)


def test_a_page_backwards() -> None:
    names = Names(("a", "b", "c", "d"), "serve")
    page = names.anthropic_list({"limit": "2", "before_id": "d"}, "x", None)
    assert ([model["id"] for model in page["data"]], page["has_more"]) == (["b", "c"], True)
    assert names.anthropic_list({"limit": "2", "before_id": "b"}, "x", None)["has_more"] is False


@pytest.mark.parametrize("limit", ["0", "1001"])
def test_limits(limit: str) -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        Names(SERVED, "serve").anthropic_list({"limit": limit}, "x", None)
