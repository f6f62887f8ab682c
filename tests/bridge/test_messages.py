from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import InvalidRequest
from bridge.messages import History
from bridge.support import Support

ALL = Support()


def engine_messages(system: object, messages: object, support: Support = ALL) -> list[dict[str, Any]]:
    return History(system, messages, support).messages


def text(value: str, **extra: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **extra}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def result(tool_id: str, content: Any, **extra: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": content, **extra}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_system_without_the_billing_header() -> None:
    blocks = [
        text("x-anthropic-billing-header: cch=1;"),
        text("You are", cache_control={"type": "ephemeral"}),
        text("b"),
    ]
    assert engine_messages(blocks, [{"role": "user", "content": "hi"}]) == [
        {"role": "system", "content": "You are\n\nb"},
        {"role": "user", "content": "hi"},
    ]


def test_system_messages_in_the_middle_join_the_users_turn() -> None:
    history = [
        {"role": "user", "content": "task"},
        {"role": "system", "content": [text("agents", cache_control={})]},
        {"role": "assistant", "content": "ok"},
        {"role": "system", "content": "more"},
    ]
    assert engine_messages("S", history) == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "task\n<system-reminder>\nagents\n</system-reminder>"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "<system-reminder>\nmore\n</system-reminder>"},
    ]


def test_system_messages_at_the_head_join_the_system_prompt() -> None:
    got = engine_messages("S", [{"role": "system", "content": "T"}, {"role": "user", "content": "u"}])
    assert got == [{"role": "system", "content": "S\n\nT"}, {"role": "user", "content": "u"}]


def test_thinking_goes_back_as_reasoning_and_calls_as_calls() -> None:
    blocks = [
        {"type": "thinking", "thinking": "T", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        text("A"),
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1, "é"]}},
    ]
    (message,) = engine_messages(None, [{"role": "assistant", "content": blocks}])
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":[1,"é"]}'}}
    assert message == {"role": "assistant", "content": "A", "reasoning": "T", "tool_calls": [call]}


def test_results_come_right_after_the_calls_and_text_after_them() -> None:
    got = engine_messages(None, [user(text("then"), result("t1", "one"), result("t2", [text("two"), text("2")]))])
    assert got == [
        {"role": "tool", "tool_call_id": "t1", "content": "one"},
        {"role": "tool", "tool_call_id": "t2", "content": "two\n2"},
        {"role": "user", "content": "then"},
    ]


def test_images_of_parallel_results_follow_all_of_them() -> None:
    got = engine_messages(None, [user(result("t1", [IMAGE]), result("t2", "two"), text("look"))])
    assert got == [
        {"role": "tool", "tool_call_id": "t1", "content": "[1 image(s): in the next user message]"},
        {"role": "tool", "tool_call_id": "t2", "content": "two"},
        {"role": "user", "content": [PART, text("look")]},
    ]


@pytest.mark.parametrize(
    ("content", "seen"),
    [("no file", "Error: no file"), ("Error: x", "Error: x"), ("<tool_use_error>x", "<tool_use_error>x")],
)
def test_the_model_sees_that_a_call_failed(content: str, seen: str) -> None:
    assert engine_messages(None, [user(result("t1", content, is_error=True))])[0]["content"] == seen


def test_same_roles_in_a_row_are_one_message() -> None:
    history = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [text("b")]},
        {"role": "assistant", "content": "c"},
        {"role": "assistant", "content": [text("d"), {"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
    ]
    first, second = engine_messages(None, history)
    assert first == {"role": "user", "content": "a\nb"}
    assert second["content"] == "c\nd"
    assert len(second["tool_calls"]) == 1


def test_what_cannot_be_shown_is_named() -> None:
    note = {"type": "document", "title": "T", "source": {"type": "text", "data": "words"}}
    parts = {"type": "document", "source": {"type": "content", "content": [text("in"), text("side")]}}
    lost = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    (message,) = engine_messages(None, [user(note, parts, lost, {"type": "new_thing"})])
    assert message["content"].split("\n") == [
        "T",
        "words",
        "in",
        "side",
        "[an image that is not in the request is not shown to this model]",
        "[a block of type new_thing is not shown to this model]",
    ]


PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "x"}}


@pytest.mark.parametrize(
    "block", [PDF, result("t1", [PDF]), {"type": "document", "source": {"type": "url", "url": "u"}}]
)
def test_a_pdf_is_refused_with_what_to_do(block: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"document: .*(application/pdf|url).*pdftotext.*images.*/rewind"):
        engine_messages(None, [user(block)])


def test_a_model_that_reads_text_only_is_told_of_images_where_they_were() -> None:
    blind = Support(frozenset({"image"}))
    history = [user(result("t1", [text("a"), IMAGE, IMAGE]), result("t2", [IMAGE]), IMAGE)]
    note = "[an image is not shown: this model reads text only]"
    assert engine_messages(None, history, blind) == [
        {"role": "tool", "tool_call_id": "t1", "content": f"a\n{note}\n{note}"},
        {"role": "tool", "tool_call_id": "t2", "content": note},
        {"role": "user", "content": note},
    ]


def test_several_images_of_several_results_keep_their_order() -> None:
    def image(data: str) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    got = engine_messages(None, [user(result("t1", [image("1"), image("2")]), result("t2", [image("3")]), image("4"))])
    assert [message["role"] for message in got] == ["tool", "tool", "user"]
    assert [part["image_url"]["url"][-1] for part in got[2]["content"]] == ["1", "2", "3", "4"]


def test_thoughts_go_into_the_field_that_the_engine_reads() -> None:
    blocks = [{"type": "thinking", "thinking": "T", "signature": ""}, text("A")]
    (message,) = engine_messages(
        None, [{"role": "assistant", "content": blocks}], Support(reasoning="reasoning_content")
    )
    assert message == {"role": "assistant", "content": "A", "reasoning_content": "T"}


def test_a_block_array_and_a_plain_string_are_the_same_prompt() -> None:
    def ends(content: object) -> list[dict[str, Any]]:
        return engine_messages("S", [{"role": "user", "content": "u"}, {"role": "system", "content": content}])

    assert ends([text("notes\n\nmore", cache_control={"type": "ephemeral"})]) == ends("notes\n\nmore")


def test_what_a_history_does_to_the_tools() -> None:
    def change(kind: str, **tool: Any) -> dict[str, Any]:
        return {"type": f"tool_{kind}", "tool": tool}

    definition = {"name": "New", "input_schema": {"type": "object"}}
    blocks = [
        change("addition", type="tool_reference", name="Later"),
        change("removal", type="tool_reference", name="Gone"),
        change("addition", type="tool_definition", definition=definition),
    ]
    loaded = user(result("t1", [{"type": "tool_reference", "tool_name": "Notebook"}]))
    history = History("S", [loaded, {"role": "system", "content": blocks}], ALL)
    assert history.offered == {"Notebook": True, "Later": True, "Gone": False, "New": True}
    assert history.defined == [definition]
    assert history.messages[1]["content"] == "Tool loaded: Notebook"
    assert "Tool addition: Later\n\nTool removal: Gone\n\nTool addition: New" in history.messages[2]["content"]


def test_an_assistant_turn_with_nothing_left_is_left_out() -> None:
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
        {"role": "user", "content": "b"},
    ]
    assert engine_messages(None, history) == [{"role": "user", "content": "a\nb"}]


@pytest.mark.parametrize(
    ("messages", "wording"),
    [
        (None, "messages: Field required"),
        ("x", "messages: Input should be a list"),
        ([], "messages: Input should be a list of at least one"),
        ([{"role": "tool", "content": "x"}], r"messages\.0\.role"),
        ([{"role": "user"}], r"messages\.0\.content"),
        ([{"role": "user", "content": [{"text": "x"}]}], r"messages\.0\.content\.0\.type"),
        ([3], r"messages\.0\.role"),
    ],
)
def test_refusals_are_worded_as_anthropics(messages: object, wording: str) -> None:
    with pytest.raises(InvalidRequest, match=wording):
        engine_messages(None, messages)


BLOCK = st.sampled_from(
    [
        text("a"),
        text("b", cache_control={"type": "ephemeral"}),
        IMAGE,
        result("t1", "r"),
        result("t2", [IMAGE, text("x")]),
    ]
)
MESSAGE = st.one_of(
    st.builds(lambda blocks: {"role": "user", "content": blocks}, st.lists(BLOCK, min_size=1, max_size=3)),
    st.just({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}),
    st.just({"role": "assistant", "content": "ok"}),
    st.just({"role": "system", "content": "note"}),
)


@given(st.lists(MESSAGE, min_size=1, max_size=6), st.sampled_from(["assistant", "user"]))
def test_a_growing_history_only_appends(history: list[dict[str, Any]], role: str) -> None:
    """What the engine has cached stays a prefix: all but the last message are equal, and it only grows."""
    before = engine_messages("S", history)
    after = engine_messages("S", [*history, {"role": role, "content": "next"}])
    assert after[: len(before) - 1] == before[:-1]
    if after[len(before) - 1] != before[-1]:
        assert after[len(before) - 1]["role"] == before[-1]["role"] == role


@given(st.lists(MESSAGE, min_size=1, max_size=6))
def test_cache_control_changes_nothing(history: list[dict[str, Any]]) -> None:
    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key != "cache_control"}
        return [bare(item) for item in value] if isinstance(value, list) else value

    assert engine_messages(None, history) == engine_messages(None, bare(history))


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "source", "tool_use_id", "input", "thinking"]),
            inner
            | st.sampled_from(["user", "assistant", "system", "text", "image", "document", "tool_result", "tool_use"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.lists(JSON, min_size=1, max_size=3))
def test_any_json_is_messages_or_our_error(system: object, messages: list[object]) -> None:
    with contextlib.suppress(InvalidRequest):
        engine_messages(system, messages)
