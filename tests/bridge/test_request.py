from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from bridge.errors import InvalidRequest
from bridge.request import count, identity, parse, translate
from tests.bridge.chunks import DATA

EFFORT = {"low": 1024, "high": 16384}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": {}}
RECORDED = json.loads((DATA / "claude-code" / "turns.json").read_text())["requests"]


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "x", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}], **fields}


def out(**fields: Any) -> dict[str, Any]:
    return translate(ask(**fields), model="m", effort=EFFORT)


def test_the_least_request() -> None:
    assert out() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 64,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def test_unknown_fields_are_dropped() -> None:
    assert out(metadata={"user_id": "x"}, context_management={}, service_tier="auto", speed="fast", zzz=1) == out()


def test_sampling_and_stops() -> None:
    got = out(temperature=0, top_p=0.9, top_k=5, stop_sequences=["END", ""])
    assert (got["temperature"], got["top_p"], got["top_k"], got["stop"]) == (0, 0.9, 5, ["END"])
    assert "stop_sequences" not in got
    assert "temperature" not in out(temperature=None)


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, 2048),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {"effort": "low"}}, 2048),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "adaptive", "display": "updates"}, "output_config": {"effort": "high"}}, 16384),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, None),
        ({"output_config": {"effort": "low"}}, 1024),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, None),
    ],
)
def test_thinking_budgets(fields: dict[str, Any], budget: int | None) -> None:
    assert out(**fields).get("thinking_token_budget") == budget


def test_disabled_thinking_is_told_to_the_template() -> None:
    assert out(thinking={"type": "disabled"})["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in out(thinking={"type": "adaptive"})


@pytest.mark.parametrize(
    ("choice", "engine"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "f"}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ({"type": "auto", "disable_parallel_tool_use": True}, {"tool_choice": "auto", "parallel_tool_calls": False}),
        (None, {}),
    ],
)
def test_tool_choice(choice: object, engine: dict[str, Any]) -> None:
    got = out(tools=[TOOL], tool_choice=choice)
    assert {key: got[key] for key in ("tool_choice", "parallel_tool_calls") if key in got} == engine
    assert "tool_choice" not in out(tool_choice=choice)


def test_tools() -> None:
    strict = {**TOOL, "name": "g", "strict": True}
    server = {"type": "web_search_20250305", "name": "web_search"}
    first, second = out(tools=[TOOL, strict, server])["tools"]
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert first == {"type": "function", "function": function}
    assert second["function"]["strict"] is True
    assert "tools" not in out(tools=[server])


def test_a_deferred_tool_waits_until_it_is_loaded() -> None:
    deferred = {**TOOL, "name": "later", "defer_loading": True}
    assert [tool["function"]["name"] for tool in out(tools=[TOOL, deferred])["tools"]] == ["f"]
    loaded = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "later"}]}
    got = out(tools=[TOOL, deferred], messages=[{"role": "user", "content": [loaded]}])
    assert [tool["function"]["name"] for tool in got["tools"]] == ["f", "later"]


def test_a_json_schema_answer() -> None:
    got = out(output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}})
    assert got["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_a_prefilled_answer_is_continued() -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The answer is"}]
    got = out(messages=messages)
    assert (got["continue_final_message"], got["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize(
    ("fields", "wording"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"tools": "x"}, "tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "sometimes"}}, "tool_choice"),
    ],
)
def test_refusals(fields: dict[str, Any], wording: str) -> None:
    with pytest.raises(InvalidRequest, match=wording):
        out(**fields)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'"x"'])
def test_a_body_that_is_no_object(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="body"):
        parse(body)


def test_a_count_renders_what_the_turn_would() -> None:
    request = ask(tools=[TOOL], system="S", thinking={"type": "disabled"})
    turn = translate(request, model="m", effort=EFFORT)
    del request["max_tokens"]
    counted = count(request, model="m")
    for key in ("model", "messages", "tools", "chat_template_kwargs"):
        assert counted[key] == turn[key]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["scenario"]))
def test_recorded_claude_code_requests_translate(recorded: dict[str, Any]) -> None:
    before = copy.deepcopy(recorded["body"])
    got = translate(recorded["body"], model="m", effort=EFFORT)
    assert recorded["body"] == before
    roles = [message["role"] for message in got["messages"]]
    assert roles[:2] == ["system", "user"]
    assert "system" not in roles[1:]
    assert "billing" not in json.dumps(got["messages"][0])
    assert got["thinking_token_budget"] == 16384
    assert "cache_control" not in json.dumps(got)
    for position, message in enumerate(got["messages"]):
        if message["role"] == "tool":
            assert got["messages"][position - 1]["role"] in ("assistant", "tool")


def test_recorded_thinking_goes_back_to_the_engine() -> None:
    (recorded,) = [one for one in RECORDED if one["scenario"] == "f_thinking"]
    assistants = [
        one for one in translate(recorded["body"], model="m", effort={})["messages"] if one["role"] == "assistant"
    ]
    assert assistants[0]["reasoning"] == "Let me look at the file first."
    assert json.loads(assistants[0]["tool_calls"][0]["function"]["arguments"])["file_path"].endswith("hello.py")


def test_recorded_tool_search_shows_the_loaded_tools_only() -> None:
    (recorded,) = [one for one in RECORDED if one["scenario"] == "b_toolsearch_deferred"]
    names = [tool["function"]["name"] for tool in translate(recorded["body"], model="m", effort={})["tools"]]
    assert "NotebookEdit" in names
    assert "DeferredToolPlaceholder" not in names


def owner(headers: dict[str, str], request: dict[str, Any]) -> tuple[str, str]:
    return identity(headers, translate(request, model="m", effort={}))


def test_claude_code_says_whose_turn_it_is() -> None:
    (sub,) = [one for one in RECORDED if one["scenario"] == "d_subagents"]
    session, agent = owner(sub["headers"], sub["body"])
    assert session == "00000000-0000-4000-8000-000000000000"
    assert agent == sub["headers"]["x-claude-code-agent-id"]
    assert identity({"x-claude-code-session-id": "s"}, {}) == ("s", "main")


def test_other_clients_are_known_by_their_conversations_head() -> None:
    first = ask(system=[{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "S"}])
    later = copy.deepcopy(first)
    later["system"][0]["text"] = "x-anthropic-billing-header: 2"
    later["messages"] = [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}]
    later["messages"] += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    other = ask(messages=[{"role": "user", "content": "something else"}])
    assert owner({}, first) == owner({}, later) != owner({}, other)
    assert identity({}, {"messages": 3, "system": None})[1] == "main"
    assert identity({}, {"messages": [3, None]})[1] == "main"
