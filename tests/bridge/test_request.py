from __future__ import annotations

import contextlib
import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import InvalidRequest
from bridge.request import History, count, identity, parse, translate
from bridge.support import Supports
from bridge.tables import TABLES
from tests.bridge.chunks import DATA
from tests.bridge.recorded import CASES, MESSAGES, conversations

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


@pytest.mark.parametrize(("kind", "switch"), [("enabled", True), ("disabled", False), ("adaptive", None), (None, None)])
def test_thinking_is_switched_where_the_client_says_so(kind: str | None, switch: bool | None) -> None:
    """Under both names that templates have for it; else the template's own default holds."""
    got = out(thinking={"type": kind}).get("chat_template_kwargs")
    assert got == (None if switch is None else {"enable_thinking": switch, "thinking": switch})


OPTIONAL: dict[str, dict[str, Any]] = {
    "thinking_token_budget": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "chat_template_kwargs": {"thinking": {"type": "disabled"}},
    "top_k": {"top_k": 5},
    "parallel_tool_calls": {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    "response_format": {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
    "continue_final_message": {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
    "stream_options": {},
}


@pytest.mark.parametrize("feature", OPTIONAL)
def test_what_the_engine_refuses_is_left_out(feature: str) -> None:
    request = ask(**OPTIONAL[feature])
    assert feature in translate(request, model="m", effort=EFFORT)
    without = translate(request, model="m", effort=EFFORT, supports={feature: False})
    assert feature not in without
    assert "add_generation_prompt" not in without


def test_every_probe_is_of_something_that_a_request_may_hold() -> None:
    assert set(TABLES["probes"]) - {"plain"} == {*OPTIONAL, "image", "native", "tokenize"}


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


def test_a_choice_without_tools_says_nothing() -> None:
    for kind in ("auto", "any", "none"):
        assert out(tool_choice={"type": kind}) == out()


WEB = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([TOOL, WEB], {"type": "tool", "name": "web_search"}),
        ([WEB], {"type": "any"}),
        ([TOOL], {"type": "tool", "name": "nope"}),
        ([TOOL], {"type": "tool"}),
        ([], {"type": "tool", "name": "f"}),
    ],
)
def test_a_forced_tool_that_cannot_run_here_is_refused(tools: list[Any], choice: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"tool_choice: \S+ cannot be forced.*web_search"):
        out(tools=tools, tool_choice=choice)
    assert "tool_choice" not in out(tools=[WEB], tool_choice={"type": "auto"})


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
    assert got["chat_template_kwargs"]["enable_thinking"] is False
    thinks = out(messages=messages, thinking={"type": "enabled", "budget_tokens": 1024})
    assert thinks["chat_template_kwargs"]["enable_thinking"] is True
    assert count(ask(messages=messages), model="m")["continue_final_message"] is True
    called = [
        *messages[:1],
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
    ]
    assert "continue_final_message" not in out(messages=called)


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


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'"x"', b'{"a":' * 100_000])
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


def test_tools_come_and_go_with_the_conversation() -> None:
    def change(kind: str, name: str) -> dict[str, Any]:
        return {"type": f"tool_{kind}", "tool": {"type": "tool_reference", "name": name}}

    inline = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {**TOOL, "name": "inline"}}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": [change("addition", "later"), change("removal", "f"), inline]},
    ]
    got = out(tools=[TOOL, {**TOOL, "name": "later", "defer_loading": True}], messages=messages)
    assert [tool["function"]["name"] for tool in got["tools"]] == ["later", "inline"]


@pytest.mark.parametrize("sent", [sent for _, sent in MESSAGES], ids=[name for name, _ in MESSAGES])
def test_every_recorded_request_is_accepted(sent: dict[str, Any]) -> None:
    body, before = sent["body"], copy.deepcopy(sent["body"])
    counts = sent["path"].endswith("count_tokens")
    got = count(body, model="m") if counts else translate(body, model="m", effort=EFFORT)
    assert body == before
    known = {"model", "messages", "tools", "chat_template_kwargs"}
    known |= {"add_generation_prompt", "return_token_strs"} if counts else {"max_tokens", "stream", "stream_options"}
    assert got.keys() <= known | (set() if counts else {"thinking_token_budget"})
    dump = json.dumps(got)
    unknown = ('"cache_control"', "billing", '"signature"', "redacted", '"defer_loading"')
    assert not [word for word in unknown if word in dump]
    tools = [tool["function"]["name"] for tool in got.get("tools", [])]
    assert len(tools) == len(set(tools))
    calls: list[str] = []
    for position, message in enumerate(got["messages"]):
        if message["role"] == "system":
            assert position == 0
        elif message["role"] == "tool":  # each right after the calls, in their order
            assert message["tool_call_id"] == calls.pop(0)
        else:
            assert calls == []
            calls = [call["id"] for call in message.get("tool_calls", [])]
    assert got["messages"][-1]["role"] in ("user", "tool")


# Where the client itself rewrites what it had sent, and no bridge can keep a prefix.
REWRITTEN = {
    "b_toolsearch_deferred-main": [0],  # ToolSearch puts the loaded tools into `tools`
    "h_err400_ladder-main": [2],  # after a refusal it leaves features out, deferred tools among them
    "h_quirk_empty_turn-main": [0],  # its nudge goes before the last system message
    "h_strict_role_system-main": [0],  # a refused system message moves into the user's
}


@pytest.mark.parametrize("name", conversations())
def test_a_conversation_only_grows_at_its_end(name: str) -> None:
    """Else the engine's prefix cache would miss. The last message may grow too: two of a role are one."""
    rewritten = []
    prompts = [translate(sent["body"], model="m", effort=EFFORT) for sent in conversations()[name]]
    for turn, (first, second) in enumerate(pairwise(prompts)):
        (*head, last), same = first["messages"], len(first["messages"]) - 1
        grown = second["messages"][same] if len(second["messages"]) > same else {}
        keeps = second["messages"][:same] == head and first.get("tools") == second.get("tools")
        if not (
            keeps and grown == {**last, "content": grown["content"]} and grown["content"].startswith(last["content"])
        ):
            rewritten.append(turn)
    assert rewritten == REWRITTEN.get(name, [])


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


def asked(case: str) -> dict[str, Any]:
    return translate(CASES[case]["request"], model="m", effort=EFFORT)


def test_cases_of_requests() -> None:
    assert asked("B19")["stop"] == ["STOPPROBE"]
    with pytest.raises(InvalidRequest, match=r"^max_tokens: Field required$"):
        translate(parse(CASES["B28"]["request_raw"].encode()), model="m", effort={})
    system, user = asked("B33")["messages"]
    assert (system["content"], user["role"]) == ("S", "user")
    assert user["content"].startswith("task\n")
    assert "Available agent types" in user["content"]
    other = copy.deepcopy(CASES["B34"]["request"])
    other["system"][0]["text"] = other["system"][0]["text"].replace("65abc", "0ff1c")
    assert translate(other, model="m", effort=EFFORT) == asked("B34")
    assistant = asked("B36")["messages"][1]
    assert (assistant["reasoning"], assistant["content"]) == ("T", "")
    assert assistant["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_case_of_a_count() -> None:
    body = CASES["B10"]["request"]
    counted, turn = count(body, model="m"), translate({**body, "max_tokens": 1}, model="m", effort={})
    assert (counted["messages"], counted["tools"]) == (turn["messages"], turn["tools"])
    assert "max_tokens" not in counted
    assert count({**body, "tools": []}, model="m").keys() == counted.keys() - {"tools"}


TAKES_ALL: Supports = {}


def engine_messages(system: object, messages: object, supports: Supports = TAKES_ALL) -> list[dict[str, Any]]:
    return History(system, messages, supports).messages


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
    blind = {"image": False}
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
    (message,) = engine_messages(None, [{"role": "assistant", "content": blocks}], {"reasoning_content": True})
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
    history = History("S", [loaded, {"role": "system", "content": blocks}], TAKES_ALL)
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
