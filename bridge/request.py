"""An Anthropic request -> the engine's chat completion request, its token count request, and whose turn it is.

Fields that we do not know are dropped, never refused: Claude Code sends new ones before servers know them.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from bridge.errors import InvalidRequest
from bridge.messages import History

STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
_SAMPLING = ("temperature", "top_p", "top_k")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def parse(body: bytes) -> dict[str, Any]:
    """Raises InvalidRequest for what is not a JSON object."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise InvalidRequest(f"the body is not a JSON object: {cause}") from cause


def translate(request: Mapping[str, Any], *, model: str, effort: Mapping[str, int]) -> dict[str, Any]:
    """The whole request, always as a stream: a client that wants one message gets it folded. `model` is the engine's
    name, `effort` the thinking tokens per level. Raises InvalidRequest."""
    max_tokens = request.get("max_tokens")
    if type(max_tokens) is not int or max_tokens < 1:
        problem = "Field required" if max_tokens is None else "Input should be a whole number above 0"
        raise InvalidRequest(f"max_tokens: {problem}")
    out = _prompt(request, model)
    out |= {"max_tokens": max_tokens, "stream": True, "stream_options": STREAM_OPTIONS}
    out |= _thinking(request, effort)
    if "tools" in out:
        out |= _tool_choice(_object(request, "tool_choice"))
    out |= {name: request[name] for name in _SAMPLING if type(request.get(name)) in (int, float)}
    if isinstance(stops := request.get("stop_sequences"), list) and stops:
        out["stop"] = [stop for stop in stops if isinstance(stop, str) and stop]
    wanted = _object(_object(request, "output_config"), "format")
    if wanted.get("type") == "json_schema":
        schema = {"name": "output", "schema": wanted.get("schema") or {}, "strict": True}
        out["response_format"] = {"type": "json_schema", "json_schema": schema}
    if out["messages"][-1]["role"] == "assistant" and out["messages"][-1]["content"]:
        out |= {"add_generation_prompt": False, "continue_final_message": True}
    return out


def count(request: Mapping[str, Any], *, model: str) -> dict[str, Any]:
    """For the engine's /tokenize: the same prompt as the turn would have. Raises InvalidRequest."""
    return {**_prompt(request, model), "add_generation_prompt": True, "return_token_strs": False}


def identity(headers: Mapping[str, str], engine: Mapping[str, Any]) -> tuple[str, str]:
    """(session, agent) of an engine's request. Claude Code names both; any other client's conversation is known by
    its head, which never changes as it grows: all up to the first user message."""
    head: list[object] = []
    for message in messages if isinstance(messages := engine.get("messages"), list) else []:
        head.append(message)
        if isinstance(message, dict) and message.get("role") == "user":
            break
    digest = hashlib.sha256(msgspec.json.encode(head)).hexdigest()[:10]
    session = headers.get("x-claude-code-session-id") or f"conversation-{digest}"
    return session, headers.get("x-claude-code-agent-id") or "main"


def _object(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    return value if isinstance(value := parent.get(name), dict) else {}


def _prompt(request: Mapping[str, Any], model: str) -> dict[str, Any]:
    history = History(request.get("system"), request.get("messages"))
    out: dict[str, Any] = {"model": model, "messages": history.messages}
    if tools := _tools(request.get("tools") or [], history.loaded):
        out["tools"] = tools
    if _object(request, "thinking").get("type") == "disabled":
        out["chat_template_kwargs"] = {"enable_thinking": False}
    return out


def _tools(tools: object, loaded: set[str]) -> list[dict[str, Any]]:
    """Server tools (no schema) cannot run here. A deferred tool is shown once a tool_reference has loaded it."""
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise InvalidRequest("tools: Input should be a valid list of tools")
    out = []
    for tool in tools:
        name, schema = tool.get("name"), tool.get("input_schema")
        if isinstance(schema, dict) and (name in loaded or not tool.get("defer_loading")):
            function = {"name": name, "description": tool.get("description") or "", "parameters": schema}
            strict = {"strict": True} if tool.get("strict") is True else {}
            out.append({"type": "function", "function": function | strict})
    return out


def _tool_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") is True else {}
    match choice.get("type"):
        case "tool":
            return out | {"tool_choice": {"type": "function", "function": {"name": choice.get("name")}}}
        case "auto" | "any" | "none" as kind:
            return out | {"tool_choice": _CHOICES[kind]}
        case _ if choice:
            raise InvalidRequest("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    return out


def _thinking(request: Mapping[str, Any], effort: Mapping[str, int]) -> dict[str, Any]:
    """A budget asked for by number wins over one by effort. No thinking field leaves the model its own default."""
    thinking, level = _object(request, "thinking"), _object(request, "output_config").get("effort")
    budget = thinking.get("budget_tokens") if thinking.get("type") == "enabled" else None
    if type(budget) is not int and isinstance(level, str):
        budget = effort.get(level)
    return {"thinking_token_budget": budget} if type(budget) is int and thinking.get("type") != "disabled" else {}
