"""An Anthropic request -> the engine's chat completion request, its token count request, and whose turn it is.

Fields that we do not know are dropped, never refused: Claude Code sends new ones before servers know them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from bridge.errors import InvalidRequest
from bridge.messages import engine_messages, referenced_tools, system_text

STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def parse(body: bytes) -> dict[str, Any]:
    """Raises InvalidRequest for what is not a JSON object."""
    try:
        request = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise InvalidRequest(f"the body is not JSON: {cause}") from cause
    if not isinstance(request, dict):
        raise InvalidRequest("the body is not a JSON object")
    return request


def translate(request: Mapping[str, Any], *, model: str, effort: Mapping[str, int]) -> dict[str, Any]:
    """The whole request, always as a stream: a client that wants one message gets it collected. `model` is the
    engine's name, `effort` the thinking tokens per level. Raises InvalidRequest."""
    max_tokens = request.get("max_tokens")
    if type(max_tokens) is not int or max_tokens < 1:
        raise InvalidRequest(
            "max_tokens: Field required" if max_tokens is None else "max_tokens: Input should be a whole number above 0"
        )
    out = _prompt(request, model)
    out |= {"max_tokens": max_tokens, "stream": True, "stream_options": STREAM_OPTIONS}
    out |= _thinking(request, effort)
    if "tools" in out:
        out |= _tool_choice(request.get("tool_choice"))
    out |= {name: request[name] for name in ("temperature", "top_p", "top_k") if _is_number(request.get(name))}
    if isinstance(stops := request.get("stop_sequences"), list) and stops:
        out["stop"] = [stop for stop in stops if isinstance(stop, str) and stop]
    out |= _response_format(request.get("output_config"))
    if out["messages"][-1]["role"] == "assistant" and out["messages"][-1]["content"]:
        out |= {"add_generation_prompt": False, "continue_final_message": True}
    return out


def count(request: Mapping[str, Any], *, model: str) -> dict[str, Any]:
    """For the engine's /tokenize: the same prompt as the turn would have. Raises InvalidRequest."""
    return {**_prompt(request, model), "add_generation_prompt": True, "return_token_strs": False}


def identity(headers: Mapping[str, str], request: Mapping[str, Any]) -> tuple[str, str]:
    """(session, agent). Claude Code names both; of any other client a conversation's head is its name."""
    session = headers.get("x-claude-code-session-id") or _head(request)
    return session, headers.get("x-claude-code-agent-id") or "main"


def _prompt(request: Mapping[str, Any], model: str) -> dict[str, Any]:
    """What the engine's chat template renders."""
    out: dict[str, Any] = {
        "model": model,
        "messages": engine_messages(request.get("system"), request.get("messages")),
    }
    if tools := _tools(request):
        out["tools"] = tools
    thinking = request.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") == "disabled":
        out["chat_template_kwargs"] = {"enable_thinking": False}
    return out


def _tools(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Server tools (no schema) cannot run here. A deferred tool is shown once a tool_reference has loaded it."""
    tools = request.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise InvalidRequest("tools: Input should be a valid list of tools")
    loaded = referenced_tools(request.get("messages")) if any(tool.get("defer_loading") for tool in tools) else set()
    out = []
    for tool in tools:
        if not isinstance(tool.get("input_schema"), dict):
            continue
        if tool.get("defer_loading") and tool.get("name") not in loaded:
            continue
        function = {
            "name": tool.get("name"),
            "description": tool.get("description") or "",
            "parameters": tool["input_schema"],
        }
        if tool.get("strict") is True:
            function["strict"] = True
        out.append({"type": "function", "function": function})
    return out


def _tool_choice(choice: object) -> dict[str, Any]:
    if not isinstance(choice, dict):
        return {}
    out: dict[str, Any] = {}
    if choice.get("type") == "tool":
        out["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif choice.get("type") in _CHOICES:
        out["tool_choice"] = _CHOICES[choice["type"]]
    else:
        raise InvalidRequest("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if choice.get("disable_parallel_tool_use") is True:
        out["parallel_tool_calls"] = False
    return out


def _thinking(request: Mapping[str, Any], effort: Mapping[str, int]) -> dict[str, Any]:
    """A budget asked for by number wins over one by effort. No thinking field leaves the model its own default."""
    thinking = request.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind == "disabled":
        return {}
    if isinstance(thinking, dict) and kind == "enabled" and type(thinking.get("budget_tokens")) is int:
        return {"thinking_token_budget": thinking["budget_tokens"]}
    config = request.get("output_config")
    level = config.get("effort") if isinstance(config, dict) else None
    return {"thinking_token_budget": effort[level]} if isinstance(level, str) and level in effort else {}


def _response_format(config: object) -> dict[str, Any]:
    wanted = config.get("format") if isinstance(config, dict) else None
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        return {}
    schema = {"name": "output", "schema": wanted.get("schema") or {}, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _head(request: Mapping[str, Any]) -> str:
    """The system prompt and everything up to the first user message: what never changes as a conversation grows."""
    parts = [system_text(request["system"])] if isinstance(request.get("system"), str | list) else []
    messages = request.get("messages")
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            break
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        parts += [content] if isinstance(content, str) else []
        parts += [str(block.get("text") or "") for block in blocks if isinstance(block, dict)]
        if message.get("role") == "user":
            break
    return "conversation-" + hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:10]
