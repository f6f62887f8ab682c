"""An Anthropic request -> the engine's chat completion request, its token count request, and whose turn it is."""

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from bridge.errors import InvalidRequest
from bridge.support import OLDER, Supports

Json: TypeAlias = dict[str, Any]
STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
ALL: Supports = {}
_SAMPLING = ("temperature", "top_p", "top_k")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_BILLING = "x-anthropic-billing-header"  # a system block of Claude Code's that varies and says nothing to a model
_ERROR_MARKS = ("error", "<tool_use_error>")
_TOOL_CHANGES = {"tool_addition": True, "tool_removal": False}


def parse(body: bytes) -> Json:
    """Raises InvalidRequest for what is not a JSON object."""
    try:
        return msgspec.json.decode(body, type=Json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise InvalidRequest(f"the body is not a JSON object: {cause}") from cause


# Fields that we do not know are dropped, never refused: Claude Code sends new ones before servers know them.
def translate(request: Json, *, model: str, effort: Mapping[str, int], supports: Supports = ALL) -> Json:
    """Always a stream. `model` is the engine's name, `effort` the thinking tokens per level. Raises InvalidRequest."""
    max_tokens = request.get("max_tokens")
    if type(max_tokens) is not int or max_tokens < 1:
        problem = "Field required" if max_tokens is None else "Input should be a whole number above 0"
        raise InvalidRequest(f"max_tokens: {problem}")
    out = _prompt(request, model, supports)
    out |= {"max_tokens": max_tokens, "stream": True, "stream_options": STREAM_OPTIONS}
    out |= _tool_choice(object_at(request, "tool_choice"), request.get("tools"), out.get("tools") or [])
    out |= {name: request[name] for name in _SAMPLING if type(request.get(name)) in (int, float)}
    if isinstance(stops := request.get("stop_sequences"), list) and stops:
        out["stop"] = [stop for stop in stops if isinstance(stop, str) and stop]
    if (budget := _budget(request, effort)) is not None:
        out["thinking_token_budget"] = budget
    wanted = object_at(object_at(request, "output_config"), "format")
    if wanted.get("type") == "json_schema":
        schema = {"name": "output", "schema": wanted.get("schema") or {}, "strict": True}
        out["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {name: value for name, value in out.items() if supports.get(name, True)}


def count(request: Json, *, model: str, supports: Supports = ALL) -> Json:
    """For the engine's /tokenize: the same prompt as the turn would have. Raises InvalidRequest."""
    return {"add_generation_prompt": True, "return_token_strs": False, **_prompt(request, model, supports)}


# Claude Code names both; another client's conversation is known by its head, which never changes as it grows: all up to
# the first user message.
def identity(headers: Mapping[str, str], engine: Json) -> tuple[str, str]:
    """(session, agent) of an engine's request."""
    agent = headers.get("x-claude-code-agent-id") or "main"
    if session := headers.get("x-claude-code-session-id"):
        return session, agent
    messages = engine.get("messages")
    messages = messages if isinstance(messages, list) else []
    users = [at for at, one in enumerate(messages) if isinstance(one, dict) and one.get("role") == "user"]
    head = messages[: users[0] + 1] if users else messages
    return f"conversation-{hashlib.sha256(msgspec.json.encode(head)).hexdigest()[:10]}", agent


def object_at(parent: Json, name: str) -> Json:
    """Its field of that name, empty where it is no object."""
    return value if isinstance(value := parent.get(name), dict) else {}


def _prompt(request: Json, model: str, supports: Supports) -> Json:
    history = History(request.get("system"), request.get("messages"), supports)
    out: Json = {"model": model, "messages": history.messages}
    if tools := _tools(request.get("tools") or [], history):
        out["tools"] = tools
    last = history.messages[-1] if history.messages else {}
    prefill = last.get("role") == "assistant" and last["content"] and "tool_calls" not in last
    if prefill and supports.get("continue_final_message", True):
        out |= {"add_generation_prompt": False, "continue_final_message": True}
    # Templates name the switch differently, and ignore what they do not name. No field leaves them their default; but
    # what follows an answer that has begun is no thought, and vLLM's parsers would take it for one.
    unsaid = False if prefill else None
    switch = {"enabled": True, "disabled": False}.get(str(object_at(request, "thinking").get("type")), unsaid)
    if switch is not None and supports.get("chat_template_kwargs", True):
        out["chat_template_kwargs"] = {"enable_thinking": switch, "thinking": switch}
    return out


# Server tools (no schema) cannot run here. A deferred tool is shown once a block of the conversation has loaded it.
def _tools(tools: object, history: "History") -> list[Json]:
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


def _tool_choice(choice: Json, asked: object, tools: list[Json]) -> Json:
    kind, forced = choice.get("type"), choice.get("name")
    if choice and kind not in (*_CHOICES, "tool"):
        raise InvalidRequest("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    names = [tool["function"]["name"] for tool in tools]
    if (kind == "any" and asked and not names) or (kind == "tool" and forced not in names):
        raise InvalidRequest(
            f"tool_choice: {forced or 'any'} cannot be forced, since no such tool has an input_schema. The tools that"
            " Anthropic's servers run (web_search, code_execution...) do not exist here"
        )
    if not (choice and names):
        return {}
    parallel = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") is True else {}
    one = {"type": "function", "function": {"name": forced}}
    return parallel | {"tool_choice": _CHOICES.get(str(kind), one)}


# A budget asked for by number wins over one by effort. No thinking field leaves the model its own default.
def _budget(request: Json, effort: Mapping[str, int]) -> int | None:
    thinking, level = object_at(request, "thinking"), object_at(request, "output_config").get("effort")
    if thinking.get("type") == "disabled":
        return None
    budget = thinking.get("budget_tokens") if thinking.get("type") == "enabled" else None
    return budget if type(budget) is int else effort.get(str(level))


# Append-only histories must stay so: nothing here depends on what follows a message, or on where cache_control lies,
# else the engine's prefix cache would miss from that message on.
class History:
    """The engine's `messages`, and what they do to the tools. Raises InvalidRequest, worded as Anthropic words it."""

    def __init__(self, system: object, messages: object, supports: Supports) -> None:
        self.messages: list[Json] = []
        self.offered: dict[str, bool] = {}  # by name: loaded or added since, or removed
        self.defined: list[Json] = []  # tools that a message brought whole
        self._shows_images = supports.get("image", True)
        self._thoughts = OLDER if supports.get(OLDER) else "reasoning"
        if not isinstance(messages, list) or not messages:
            problem = "Field required" if messages is None else "Input should be a list of at least one message"
            raise InvalidRequest(f"messages: {problem}")
        self._system(_blocks(system or [], "system"))
        takers = {"system": self._system, "user": self._user, "assistant": self._assistant}
        for position, message in enumerate(messages):
            take = takers.get(str(message.get("role"))) if isinstance(message, dict) else None
            if take is None:
                raise InvalidRequest(f"messages.{position}.role: Input should be 'user' or 'assistant'")
            take(_blocks(message.get("content"), f"messages.{position}.content"))
        for message in self.messages:
            if message["role"] == "user" and all(part["type"] == "text" for part in message["content"]):
                message["content"] = "\n".join(part["text"] for part in message["content"])

    # The last message, if it is of this role; else a new one, since templates take no two of a role in a row.
    def _last(self, role: str, content: object) -> Json:
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": content})
        return self.messages[-1]

    def _system(self, blocks: list[Json]) -> None:
        self._change_tools(blocks)
        text = "\n\n".join(text for text in map(_text, blocks) if text and not text.startswith(_BILLING))
        if text and all(message["role"] == "system" for message in self.messages):
            head = self._last("system", "")
            head["content"] = "\n\n".join(filter(None, [head["content"], text]))
        elif text:
            # Further down most templates refuse one, so it joins the user's turn, in the words that Claude Code itself
            # uses where a server refuses the role.
            reminder = f"<system-reminder>\n{text}\n</system-reminder>"
            self._last("user", [])["content"].append({"type": "text", "text": reminder})

    def _change_tools(self, blocks: list[Json]) -> None:
        for block in blocks:
            tool = object_at(block, "tool")
            if block["type"] in _TOOL_CHANGES:
                self.defined += [tool["definition"]] if object_at(tool, "definition") else []
                self.offered[_tool_name(tool)] = _TOOL_CHANGES[block["type"]]
            elif block["type"] == "tool_reference":
                self.offered[_field(block, "tool_name")] = True

    # Results first: an engine wants every tool message right after the calls.
    def _user(self, blocks: list[Json]) -> None:
        images = [part for block in blocks if block["type"] == "tool_result" for part in self._tool_result(block)]
        if parts := images + self._parts([block for block in blocks if block["type"] != "tool_result"]):
            self._last("user", [])["content"] += parts

    # Appends the tool message; returns its images, which only a user message may carry.
    def _tool_result(self, block: Json) -> list[Json]:
        inner = _blocks(block.get("content") or [], "tool_result.content")
        self._change_tools(inner)
        parts = self._parts(inner)
        images = [part for part in parts if part["type"] != "text"]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        text = "\n".join([*texts, f"[{len(images)} image(s): in the next user message]"] if images else texts)
        if block.get("is_error") and not text.lower().startswith(_ERROR_MARKS):
            text = f"Error: {text}"
        self.messages.append({"role": "tool", "tool_call_id": _field(block, "tool_use_id"), "content": text})
        return images

    def _parts(self, blocks: list[Json]) -> list[Json]:
        parts = [_image(block) if block["type"] == "image" and self._shows_images else _text(block) for block in blocks]
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts if part]

    def _assistant(self, blocks: list[Json]) -> None:
        texts = [_field(block, "text") for block in blocks if block["type"] == "text"]
        thoughts = [_field(block, "thinking") for block in blocks if block["type"] == "thinking"]
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        if not any((*texts, *thoughts, *calls)):
            return
        message = self._last("assistant", "")
        for field, more in (("content", texts), (self._thoughts, thoughts)):
            if text := "\n".join(filter(None, [message.get(field), *more])):
                message[field] = text
        if calls:
            message.setdefault("tool_calls", []).extend(calls)


def _blocks(content: object, where: str) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InvalidRequest(f"{where}: Input should be a valid string or list of blocks")
    for position, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise InvalidRequest(f"{where}.{position}.type: Field required")
    return content


def _field(block: Json, name: str) -> str:
    return str(block.get(name) or "")


def _tool_name(tool: Json) -> str:
    return _field(object_at(tool, "definition") or tool, "name")


# What a model can read of one block; a block that we cannot show is named, not lost in silence.
def _text(block: Json) -> str:
    match block["type"]:
        case "text":
            return _field(block, "text")
        case "image":
            return "[an image is not shown: this model reads text only]"
        case "tool_reference":
            return f"Tool loaded: {block.get('tool_name')}"
        case "tool_addition" | "tool_removal" as change:
            return f"Tool {change[5:]}: {_tool_name(object_at(block, 'tool'))}"
        case "document":
            return "\n".join(filter(None, [_field(block, "title"), _document(object_at(block, "source"))]))
        case other:
            return f"[a block of type {other} is not shown to this model]"


def _document(source: Json) -> str:
    match source:
        case {"type": "text", "data": str(data)}:
            return data
        case {"type": "content"}:
            return "\n".join(map(_text, _blocks(source.get("content") or [], "document.source.content")))
    raise InvalidRequest(
        f"document: this model cannot read a source of type {source.get('media_type') or source.get('type')}. Send its"
        " text (pdftotext makes it) or its pages as images; /rewind takes it out of a Claude Code conversation"
    )


def _image(block: Json) -> Json | str:
    match object_at(block, "source"):
        case {"type": "base64", "data": str(data), **rest}:
            url = f"data:{rest.get('media_type') or 'image/png'};base64,{data}"
        case {"type": "url", "url": str(url)}:
            pass
        case _:
            return "[an image that is not in the request is not shown to this model]"
    return {"type": "image_url", "image_url": {"url": url}}


def _call(block: Json) -> Json:
    arguments = msgspec.json.encode(block.get("input") or {}).decode()
    function = {"name": _field(block, "name"), "arguments": arguments}
    return {"id": _field(block, "id"), "type": "function", "function": function}
