"""An Anthropic request -> the engine's chat completion request, its token count request, and whose turn it is."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from bridge.errors import InvalidRequest
from bridge.messages import History, object_at
from bridge.support import Support

STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
ALL = Support()
_SAMPLING = ("temperature", "top_p", "top_k")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def parse(body: bytes) -> dict[str, Any]:
    """Raises InvalidRequest for what is not a JSON object."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise InvalidRequest(f"the body is not a JSON object: {cause}") from cause


# Fields that we do not know are dropped, never refused: Claude Code sends new ones before servers know them.
def translate(
    request: Mapping[str, Any], *, model: str, effort: Mapping[str, int], support: Support = ALL
) -> dict[str, Any]:
    """Always a stream. `model` is the engine's name, `effort` the thinking tokens per level. Raises InvalidRequest."""
    max_tokens = request.get("max_tokens")
    if type(max_tokens) is not int or max_tokens < 1:
        problem = "Field required" if max_tokens is None else "Input should be a whole number above 0"
        raise InvalidRequest(f"max_tokens: {problem}")
    out = _prompt(request, model, support)
    out |= {"max_tokens": max_tokens, "stream": True, "stream_options": STREAM_OPTIONS}
    out |= _tool_choice(object_at(request, "tool_choice"), request.get("tools"), out.get("tools"))
    out |= {name: request[name] for name in _SAMPLING if type(request.get(name)) in (int, float)}
    if isinstance(stops := request.get("stop_sequences"), list) and stops:
        out["stop"] = [stop for stop in stops if isinstance(stop, str) and stop]
    if (budget := _budget(request, effort)) is not None:
        out["thinking_token_budget"] = budget
    wanted = object_at(object_at(request, "output_config"), "format")
    if wanted.get("type") == "json_schema":
        schema = {"name": "output", "schema": wanted.get("schema") or {}, "strict": True}
        out["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {name: value for name, value in out.items() if name in support}


def count(request: Mapping[str, Any], *, model: str, support: Support = ALL) -> dict[str, Any]:
    """For the engine's /tokenize: the same prompt as the turn would have. Raises InvalidRequest."""
    return {"add_generation_prompt": True, "return_token_strs": False, **_prompt(request, model, support)}


# Claude Code names both; another client's conversation is known by its head, which never changes as it grows: all up to
# the first user message.
def identity(headers: Mapping[str, str], engine: Mapping[str, Any]) -> tuple[str, str]:
    """(session, agent) of an engine's request."""
    agent = headers.get("x-claude-code-agent-id") or "main"
    if session := headers.get("x-claude-code-session-id"):
        return session, agent
    messages = engine.get("messages")
    messages = messages if isinstance(messages, list) else []
    users = [at for at, one in enumerate(messages) if isinstance(one, dict) and one.get("role") == "user"]
    head = messages[: users[0] + 1] if users else messages
    return f"conversation-{hashlib.sha256(msgspec.json.encode(head)).hexdigest()[:10]}", agent


def _prompt(request: Mapping[str, Any], model: str, support: Support) -> dict[str, Any]:
    history = History(request.get("system"), request.get("messages"), support)
    out: dict[str, Any] = {"model": model, "messages": history.messages}
    if tools := _tools(request.get("tools") or [], history):
        out["tools"] = tools
    last = history.messages[-1] if history.messages else {}
    prefill = last.get("role") == "assistant" and last["content"] and "tool_calls" not in last
    if prefill and "continue_final_message" in support:
        out |= {"add_generation_prompt": False, "continue_final_message": True}
    # Templates name the switch differently, and ignore what they do not name. No field leaves them their default; but
    # what follows an answer that has begun is no thought, and vLLM's parsers would take it for one.
    switch = {"enabled": True, "disabled": False}.get(str(object_at(request, "thinking").get("type")))
    switch = False if prefill and switch is None else switch
    if switch is not None and "chat_template_kwargs" in support:
        out["chat_template_kwargs"] = {"enable_thinking": switch, "thinking": switch}
    return out


# Server tools (no schema) cannot run here. A deferred tool is shown once a block of the conversation has loaded it.
def _tools(tools: object, history: History) -> list[dict[str, Any]]:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise InvalidRequest("tools: Input should be a valid list of tools")
    out = {}
    for tool in [*tools, *history.defined]:
        name, schema = str(tool.get("name")), tool.get("input_schema")
        if isinstance(schema, dict) and history.offered.get(name, not tool.get("defer_loading")):
            function = {"name": name, "description": tool.get("description") or "", "parameters": schema}
            strict = {"strict": True} if tool.get("strict") is True else {}
            out[name] = {"type": "function", "function": function | strict}
    return list(out.values())


def _tool_choice(choice: Mapping[str, Any], asked: object, tools: list[dict[str, Any]] | None) -> dict[str, Any]:
    kind = choice.get("type")
    if choice and kind not in (*_CHOICES, "tool"):
        raise InvalidRequest("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    names = [tool["function"]["name"] for tool in tools or ()]
    if (kind == "any" and asked and not names) or (kind == "tool" and choice.get("name") not in names):
        raise InvalidRequest(
            f"tool_choice: {choice.get('name') or 'any'} cannot be forced, since no such tool has an input_schema. The"
            " tools that Anthropic's servers run (web_search, code_execution...) do not exist here"
        )
    if not (choice and names):
        return {}
    forced = {"type": "function", "function": {"name": choice.get("name")}}
    parallel = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") is True else {}
    return parallel | {"tool_choice": forced if kind == "tool" else _CHOICES[str(kind)]}


# A budget asked for by number wins over one by effort. No thinking field leaves the model its own default.
def _budget(request: Mapping[str, Any], effort: Mapping[str, int]) -> int | None:
    thinking, level = object_at(request, "thinking"), object_at(request, "output_config").get("effort")
    if thinking.get("type") == "disabled":
        return None
    budget = thinking.get("budget_tokens") if thinking.get("type") == "enabled" else None
    return budget if type(budget) is int else effort.get(str(level))
