"""A request's JSON -> what the simulated engine has to do for it, or vLLM's refusal (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from control.local.engine_answer import Answer, Sampling, compose
from control.local.engine_errors import bad_request, bad_value, invalid, prompt_too_long, total_too_long, unknown_model
from control.local.engine_script import ScriptError, Turn, last_script, scripted, unscripted
from control.local.engine_tokens import PAD, Tokens

Api = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class Model:
    """What is served: names (the first is the model's own), window and tokenizer."""

    names: tuple[str, ...]
    window: int
    tokens: Tokens
    seed: int = 0
    images: int = 0
    """Images that one prompt may hold; 0: a text model."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One accepted request, its answer already known."""

    api: Api
    model: str
    prompt: str
    """Rendered: a whole number of tokens."""
    prompt_tokens: int
    answer: Answer
    max_tokens: int | None
    """As the client said it; None when it did not."""
    stream: bool
    include_usage: bool
    continuous_usage: bool
    include_reasoning: bool
    named: bool
    """A tool was named by tool_choice."""
    tools: bool
    """Tool calls are parsed."""


def chat(body: Mapping[str, Any], model: Model) -> Ask:
    """POST /v1/chat/completions. Raises ApiError."""
    _check_common(body, model)
    messages = checked_messages(body)
    _check_images(messages, model)
    tools = _tools(body)
    thinking = _thinking(body)
    prompt = model.tokens.prompt(messages, body.get("tools") or (), thinking=thinking)
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    room, asked = _room(model, model.tokens.count(prompt), limit)
    sampling = Sampling(
        max_tokens=room,
        thinking=thinking,
        thinking_budget=_budget(body),
        tools=tools,
        choice=_choice(body, tools),
        parallel=body.get("parallel_tool_calls") is not False,
        **_stops(body),
    )
    try:
        turn = scripted(messages)
    except ScriptError as error:
        raise bad_request(f"simulator script: {error}", "messages") from error
    return _ask("chat", body, model, prompt, turn, sampling, asked)


def completion(body: Mapping[str, Any], model: Model) -> Ask:
    """POST /v1/completions, one prompt of text or of token ids. Raises ApiError."""
    _check_common(body, model)
    text = _text_prompt(body.get("prompt"), model.tokens)
    prompt = model.tokens.segment(text)
    limit = body.get("max_tokens", 16)
    room, asked = _room(model, model.tokens.count(prompt), limit)
    try:
        turns = last_script(text, where="the prompt")
    except ScriptError as error:
        raise bad_request(f"simulator script: {error}", "prompt") from error
    sampling = Sampling(max_tokens=room, thinking=False, **_stops(body))
    return _ask("completions", body, model, prompt, turns[0] if turns else None, sampling, asked)


def tokenized(body: Mapping[str, Any], model: Model) -> tuple[list[int], list[str] | None]:
    """POST /tokenize: ids, and the tokens themselves when `return_token_strs` asks for them. Raises ApiError."""
    _check_model(body, model)
    if "messages" in body:
        _tools(body)
        prompt = model.tokens.prompt(checked_messages(body), body.get("tools") or (), thinking=_thinking(body))
    else:
        prompt = model.tokens.segment(_text_prompt(body.get("prompt"), model.tokens))
    strings = [piece.rstrip(PAD) for piece in model.tokens.pieces(prompt)] if body.get("return_token_strs") else None
    return model.tokens.ids(prompt), strings


def checked_messages(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages, each an object with a role and a content that can be rendered. Raises ApiError."""
    if "messages" not in body:
        raise invalid("missing", "messages", "Field required", dict(body))
    messages = body["messages"]
    if not isinstance(messages, list):
        raise invalid("list_type", "messages", "Input should be a valid list", messages)
    if not messages:
        raise bad_request("Cannot apply chat template to an empty conversation. Provide at least one message.")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise invalid("dict_type", f"messages.{index}", "Input should be a message with a role", message)
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if not isinstance(content, str | list | None) or not all(isinstance(part, dict) for part in parts):
            raise invalid("string_type", f"messages.{index}.content", "Input should be a string or parts", content)
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise invalid("list_type", f"messages.{index}.tool_calls", "Input should be a valid list", calls)
    return messages


def _ask(
    api: Api,
    body: Mapping[str, Any],
    model: Model,
    prompt: str,
    turn: Turn | None,
    sampling: Sampling,
    asked: int | None,
) -> Ask:
    turn = unscripted(prompt, model.seed) if turn is None else turn
    options = _mapping(body, "stream_options")
    return Ask(
        api=api,
        model=str(body.get("model") or model.names[0]),
        prompt=prompt,
        prompt_tokens=model.tokens.count(prompt),
        answer=compose(turn, sampling, model.tokens, prompt, model.seed),
        max_tokens=asked,
        stream=bool(body.get("stream")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage")) and bool(options.get("continuous_usage_stats")),
        include_reasoning=body.get("include_reasoning") is not False,
        named=sampling.choice.startswith("named:"),
        tools=sampling.tools is not None and sampling.choice != "none",
    )


def _check_common(body: Mapping[str, Any], model: Model) -> None:
    _check_model(body, model)
    temperature = body.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
        value = float(temperature)
        raise bad_value(f"temperature must be non-negative, got {value}.", "temperature", value)
    if body.get("n") not in (None, 1):
        raise bad_value("the simulated engine answers with one choice.", "n", body["n"])


def _check_model(body: Mapping[str, Any], model: Model) -> None:
    name = body.get("model")
    if name is not None and name not in model.names:
        raise unknown_model(name, model.names)


def _check_images(messages: list[Mapping[str, Any]], model: Model) -> None:
    images = sum(
        1
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if part.get("type") == "image_url"
    )
    if images and not model.images:
        raise bad_request(f"{model.names[0]} is not a multimodal model")
    if images > model.images:
        raise bad_request(f"At most {model.images} image(s) may be provided in one prompt.")


def _room(model: Model, prompt_tokens: int, limit: object) -> tuple[int, int | None]:
    """Output tokens that the window leaves, and what was asked for."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise invalid("int_type", "max_tokens", "Input should be a valid integer", limit)
    if limit is not None and limit < 1:
        raise bad_value(f"max_tokens must be at least 1, got {limit}.", "max_tokens", limit)
    if limit is not None and limit > model.window:
        message = f"max_tokens={limit} cannot be greater than max_model_len={model.window}."
        raise bad_value(f"{message} Please request fewer output tokens.", "max_tokens", limit)
    if prompt_tokens >= model.window:
        raise prompt_too_long(model.window)
    if limit is not None and prompt_tokens + limit > model.window:
        raise total_too_long(model.window, limit)
    return (model.window - prompt_tokens if limit is None else limit), limit


def _budget(body: Mapping[str, Any]) -> int | None:
    budget = body.get("thinking_token_budget")
    if budget is None or budget == -1:
        return None
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        message = "`thinking_token_budget` must be a non-negative integer or -1 for unlimited."
        raise bad_value(message, "thinking_token_budget", budget)
    return budget


def _stops(body: Mapping[str, Any]) -> dict[str, Any]:
    stop = body.get("stop") or []
    least = body.get("min_tokens") or 0
    if not isinstance(stop, str | list):
        raise invalid("list_type", "stop", "Input should be a string or a list of strings", stop)
    if not isinstance(least, int) or least < 0:
        raise bad_value(f"min_tokens must be greater than or equal to 0, got {least}.", "min_tokens", least)
    return {
        "stop": (stop,) if isinstance(stop, str) else tuple(str(one) for one in stop),
        "include_stop": bool(body.get("include_stop_str_in_output")),
        "ignore_eos": bool(body.get("ignore_eos")),
        "min_tokens": least,
    }


def _mapping(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid("dict_type", key, "Input should be a valid dictionary", value)
    return value


def _thinking(body: Mapping[str, Any]) -> bool:
    return _mapping(body, "chat_template_kwargs").get("enable_thinking") is not False


def _tools(body: Mapping[str, Any]) -> dict[str, Any] | None:
    tools = body.get("tools")
    if not tools:
        return None
    if not isinstance(tools, list):
        raise invalid("list_type", "tools", "Input should be a valid list", tools)
    found: dict[str, Any] = {}
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise invalid("missing", f"tools.{index}.function.name", "Field required", tool)
        found[function["name"]] = function.get("parameters") or {}
    return found


def _choice(body: Mapping[str, Any], tools: dict[str, Any] | None) -> str:
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        name = _mapping(choice, "function").get("name")
        if tools is None or name not in tools:
            text = "The tool specified in `tool_choice` does not match any of the specified `tools`"
            raise bad_request(f"{text} (parameter=tool_choice)", "tool_choice")
        return f"named:{name}"
    if choice not in ("auto", "none", "required"):
        raise invalid("literal_error", "tool_choice", "Input should be 'none', 'auto' or 'required'", choice)
    return str(choice)


def _text_prompt(prompt: object, tokens: Tokens) -> str:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return "".join(tokens.segment(chr(0x20000 + token % 0xE0000)) for token in prompt)
    raise invalid("string_type", "prompt", "Input should be one prompt, of text or of token ids", prompt)
