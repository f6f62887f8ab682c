from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import InvalidRequest, NotFound
from bridge.names import Names, plain

NEMOTRON = ("nemotron", "claude-nemotron", "claude-nemotron[1m]")
MODELS = {"qwen": ("qwen3-coder",), "nemotron": NEMOTRON}
SERVE, REFUSE = Names(MODELS, "nemotron", "serve"), Names(MODELS, "nemotron", "refuse")
WHEN = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("asked", ["nemotron", "claude-nemotron[1m]", "claude-opus-5-5", "nemotron[1M]"])
def test_any_name_is_served_under_the_engines_own(asked: str) -> None:
    assert SERVE.resolve(asked) == ("nemotron", "nemotron")


@pytest.mark.parametrize("asked", ["qwen3-coder", "qwen3-coder[1m]", "claude-qwen3-coder", "claude-qwen3-coder[1m]"])
def test_another_models_name_means_that_model(asked: str) -> None:
    assert SERVE.resolve(asked) == REFUSE.resolve(asked) == ("qwen", "qwen3-coder")


def test_unknown_names_may_be_refused() -> None:
    assert REFUSE.resolve("nemotron[1m]") == REFUSE.resolve("claude-nemotron") == ("nemotron", "nemotron")
    with pytest.raises(NotFound, match=r"claude-opus-5-5 is not served here; served: nemotron, .*, qwen3-coder"):
        REFUSE.resolve("claude-opus-5-5")


def test_a_bridge_without_a_supervisor_has_one_model_without_a_key() -> None:
    assert Names({"": ("m",)}, "", "serve").resolve("x") == Names({"": ("m",)}, "", "refuse").resolve("m") == ("", "m")
    assert Names({"": ("claude-m",)}, "", "refuse").resolve("claude-m") == ("", "claude-m")


@pytest.mark.parametrize("asked", [None, "", 3, ["m"]])
def test_no_name_is_an_invalid_request(asked: object) -> None:
    with pytest.raises(InvalidRequest, match="model"):
        SERVE.resolve(asked)


def test_the_mark_is_stripped_once_in_any_case() -> None:
    assert (plain("m[1m]"), plain("m[1M]"), plain("m")) == ("m", "m", "m")


def test_openai_dialect() -> None:
    data = SERVE.openai_list(7, 8192)["data"]
    assert [model["id"] for model in data] == [*NEMOTRON, "qwen3-coder"]
    assert [model["max_model_len"] for model in data] == [8192, 8192, 8192, None]
    assert (data[0]["object"], data[0]["created"]) == ("model", 7)


def test_anthropic_dialect() -> None:
    listed = SERVE.anthropic_list(WHEN, 8192, {})
    assert [model["id"] for model in listed["data"]] == [*NEMOTRON, "qwen3-coder"]
    first = {"type": "model", "id": "nemotron", "display_name": "nemotron", "created_at": WHEN}
    assert listed["data"][0] == {**first, "max_input_tokens": 8192}
    assert listed["data"][-1]["max_input_tokens"] is None
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "nemotron", "qwen3-coder")


MANY = Names({"": tuple(f"m{n}" for n in range(25))}, "", "serve")


@pytest.mark.parametrize(
    ("page", "first", "last", "more"),
    [
        ({}, "m0", "m19", True),
        ({"limit": "1000"}, "m0", "m24", False),
        ({"limit": "5", "after_id": "m9"}, "m10", "m14", True),
        ({"limit": "20", "after_id": "m20"}, "m21", "m24", False),
        ({"limit": "5", "before_id": "m9"}, "m4", "m8", True),
        ({"limit": "5", "before_id": "m3"}, "m0", "m2", False),
        ({"after_id": "m24"}, None, None, False),
    ],
)
def test_pages(page: dict[str, str], first: str | None, last: str | None, more: bool) -> None:
    listed = MANY.anthropic_list(WHEN, None, page)
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == (first, last, more)


@pytest.mark.parametrize(
    "page", [{"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"after_id": "?"}, {"before_id": ""}]
)
def test_a_bad_page_is_an_invalid_request(page: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(page))):
        MANY.anthropic_list(WHEN, None, page)


@given(st.integers(1, 30))
def test_pages_in_a_row_are_all_of_them(limit: int) -> None:
    seen: list[str] = []
    page = {"limit": str(limit)}
    while True:
        listed = MANY.anthropic_list(WHEN, None, page)
        seen += [model["id"] for model in listed["data"]]
        if not listed["has_more"]:
            break
        page["after_id"] = listed["last_id"]
    assert seen == [f"m{n}" for n in range(25)]
