"""An Anthropic request -> the engine's chat completion request, its token count request, and whose turn it is."""

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from bridge.errors import InvalidRequest
from bridge.support import OLDER, Supports
from bridge.tables import TABLES

Json: TypeAlias = dict[str, Any]
ALL: Supports = {}
_SWITCHES, _CHOICES, _WORDS = TABLES["thinking"], TABLES["tool_choice"], TABLES["words"]
_TOOL_CHANGES = ("tool_reference", "tool_addition", "tool_removal")
_BILLING = "x-anthropic-billing-header"  # a system block of Claude Code's that varies and says nothing to a model


# Raises InvalidRequest for what is not a JSON object.
def parse(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body, type=Json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise InvalidRequest(f"the body is not a JSON object: {cause}") from cause


# Always a stream. `model` is the engine's name, `effort` the thinking tokens per level. Fields that we do not know are
# dropped, never refused: Claude Code sends new ones before servers know them. Raises InvalidRequest.
def translate(request: Json, *, model: str, effort: Mapping[str, int], supports: Supports = ALL) -> Json:
    thinking, wanted = object_at(request, "thinking"), object_at(request, "output_config")
    max_tokens, stops, form = request.get("max_tokens"), request.get("stop_sequences"), object_at(wanted, "format")
    if type(max_tokens) is not int or max_tokens < 1:
        raise InvalidRequest(f"max_tokens: {_required(max_tokens, 'a whole number above 0')}")
    out = _prompt(request, model, supports)
    out |= {"max_tokens": max_tokens, **TABLES["probes"]["stream_options"]}
    out |= _tool_choice(object_at(request, "tool_choice"), request.get("tools"), out["tools"] or [])
    out |= {
        name: request[name] for name in ("temperature", "top_p", "top_k") if type(request.get(name)) in (int, float)
    }
    if isinstance(stops, list) and stops:
        out["stop"] = [stop for stop in stops if isinstance(stop, str) and stop]
    # A budget asked for by number wins over one by effort. No thinking field leaves the model its own default.
    if thinking.get("type") != "disabled":
        budget = thinking.get("budget_tokens") if thinking.get("type") == "enabled" else None
        out["thinking_token_budget"] = budget if type(budget) is int else effort.get(str(wanted.get("effort")))
    if form.get("type") == "json_schema":
        schema = {"name": "output", "schema": form.get("schema") or {}, "strict": True}
        out["response_format"] = {"type": "json_schema", "json_schema": schema}
    return _said(out, supports)


# For the engine's /tokenize: the same prompt as the turn would have. Raises InvalidRequest.
def count(request: Json, *, model: str, supports: Supports = ALL) -> Json:
    return _said({**TABLES["count"], **_prompt(request, model, supports)}, supports)


# (session, agent) of an engine's request. Claude Code names both; another client's conversation is known by its head,
# which never changes as it grows: all up to the first user message.
def identity(headers: Mapping[str, str], engine: Json) -> tuple[str, str]:
    agent = headers.get("x-claude-code-agent-id") or "main"
    if session := headers.get("x-claude-code-session-id"):
        return session, agent
    messages = value if isinstance(value := engine.get("messages"), list) else []
    users = (at for at, one in enumerate(messages, 1) if isinstance(one, dict) and one.get("role") == "user")
    head = msgspec.json.encode(messages[: next(users, None)])
    return f"conversation-{hashlib.sha256(head).hexdigest()[:10]}", agent


# Its field of that name, empty where it is no object.
def object_at(parent: Json, name: str) -> Json:
    return value if isinstance(value := parent.get(name), dict) else {}


# Templates name the switch of thoughts differently, and ignore what they do not name. No field leaves them their
# default; but what follows an answer that has begun is no thought, and vLLM's parsers would take it for one.
def _prompt(request: Json, model: str, supports: Supports) -> Json:
    history = History(request.get("system"), request.get("messages"), supports)
    last = history.messages[-1] if history.messages else {}
    prefill = last.get("role") == "assistant" and last["content"] and "tool_calls" not in last
    switch = _SWITCHES.get(str(object_at(request, "thinking").get("type")), _SWITCHES["disabled"] if prefill else None)
    out = {"model": model, "messages": history.messages, "tools": _tools(request.get("tools") or [], history) or None}
    goes_on = prefill and supports.get("continue_final_message", True)
    more = {"add_generation_prompt": False, "continue_final_message": True} if goes_on else {}
    return {**out, **more, "chat_template_kwargs": switch}


# Without the fields that have no value, and those that the engine does not take.
def _said(out: Json, supports: Supports) -> Json:
    return {name: value for name, value in out.items() if value is not None and supports.get(name, True)}


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
        raise InvalidRequest(_WORDS["forced_tool"].format(tool=forced or "any"))
    parallel = False if choice.get("disable_parallel_tool_use") is True else None
    one = {"type": "function", "function": {"name": forced}}
    out = {"parallel_tool_calls": parallel, "tool_choice": _CHOICES.get(str(kind), one)}
    return out if choice and names else {}


# The engine's `messages`, and what they do to the tools. Raises InvalidRequest, worded as Anthropic words it.
# Append-only histories must stay so: nothing here depends on what follows a message, or on where cache_control lies,
# else the engine's prefix cache would miss from that message on.
class History:
    def __init__(self, system: object, messages: object, supports: Supports) -> None:
        self.messages: list[Json] = []
        self.offered: dict[str, bool] = {}  # by name: loaded or added since, or removed
        self.defined: list[Json] = []  # tools that a message brought whole
        self._shows_images = supports.get("image", True)
        self._thoughts = OLDER if supports.get(OLDER) else "reasoning"
        if not isinstance(messages, list) or not messages:
            raise InvalidRequest(f"messages: {_required(messages, 'a list of at least one message')}")
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
            self._user(_blocks(f"<system-reminder>\n{text}\n</system-reminder>", "system"))

    def _change_tools(self, blocks: list[Json]) -> None:
        for block in blocks:
            if block["type"] in _TOOL_CHANGES:
                self.offered[_tool_name(block)] = block["type"] != "tool_removal"
                self.defined += filter(None, [object_at(object_at(block, "tool"), "definition")])

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
        if block.get("is_error") and not text.lower().startswith(("error", "<tool_use_error>")):
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
        # A turn with nothing left, as of redacted thoughts alone, is left out.
        message = self._last("assistant", "") if any((*texts, *thoughts, *calls)) else {}
        for field, more in (("content", texts), (self._thoughts, thoughts)):
            if text := "\n".join(filter(None, [message.get(field), *more])):
                message[field] = text
        if calls:
            message.setdefault("tool_calls", []).extend(calls)


def _blocks(content: object, where: str) -> list[Json]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        raise InvalidRequest(f"{where}: Input should be a valid string or list of blocks")
    for position, block in enumerate(blocks):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise InvalidRequest(f"{where}.{position}.type: Field required")
    return blocks


def _required(value: object, wanted: str) -> str:
    return "Field required" if value is None else f"Input should be {wanted}"


def _field(block: Json, name: str) -> str:
    return str(block.get(name) or "")


def _tool_name(block: Json) -> str:
    tool = object_at(block, "tool")
    return _field(block, "tool_name") or _field(object_at(tool, "definition") or tool, "name")


# What a model can read of one block; a block that we cannot show is named, not lost in silence.
def _text(block: Json) -> str:
    if block["type"] == "document":
        return "\n".join(filter(None, [_field(block, "title"), _document(object_at(block, "source"))]))
    words = str(_WORDS.get(block["type"], _WORDS["block"]))
    return words.format(kind=block["type"], tool=_tool_name(block), text=_field(block, "text"))


def _document(source: Json) -> str:
    kinds = {"text": source.get("data"), "content": source.get("content") or []}
    if (content := kinds.get(str(source.get("type")))) is None:
        raise InvalidRequest(_WORDS["document_source"].format(kind=source.get("media_type") or source.get("type")))
    return "\n".join(map(_text, _blocks(content, "document.source.content")))


def _image(block: Json) -> Json | str:
    source = object_at(block, "source")
    url = _field(source, "url")
    if data := _field(source, "data"):
        url = f"data:{_field(source, 'media_type') or 'image/png'};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}} if url else str(_WORDS["image_elsewhere"])


def _call(block: Json) -> Json:
    arguments = msgspec.json.encode(block.get("input") or {}).decode()
    function = {"name": _field(block, "name"), "arguments": arguments}
    return {"id": _field(block, "id"), "type": "function", "function": function}
