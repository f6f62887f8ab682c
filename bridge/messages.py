"""Anthropic's system and messages -> the engine's messages."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from bridge.errors import InvalidRequest
from bridge.support import Support

Block: TypeAlias = dict[str, Any]
_BILLING = "x-anthropic-billing-header"  # a system block of Claude Code's that varies and says nothing to a model
_ERROR_MARKS = ("error", "<tool_use_error>")
_TOOL_CHANGES = {"tool_addition": True, "tool_removal": False}


# Append-only histories must stay so: nothing here depends on what follows a message, or on where cache_control lies,
# else the engine's prefix cache would miss from that message on.
class History:
    """The engine's `messages`, and what they do to the tools. Raises InvalidRequest, worded as Anthropic words it."""

    def __init__(self, system: object, messages: object, support: Support) -> None:
        self.messages: list[dict[str, Any]] = []
        self.offered: dict[str, bool] = {}  # by name: loaded or added since, or removed
        self.defined: list[dict[str, Any]] = []  # tools that a message brought whole
        self._support = support
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
    def _last(self, role: str, content: object) -> dict[str, Any]:
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": content})
        return self.messages[-1]

    def _system(self, blocks: list[Block]) -> None:
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

    def _change_tools(self, blocks: list[Block]) -> None:
        for block in blocks:
            tool = object_at(block, "tool")
            if block["type"] in _TOOL_CHANGES:
                self.defined += [tool["definition"]] if object_at(tool, "definition") else []
                self.offered[_tool_name(tool)] = _TOOL_CHANGES[block["type"]]
            elif block["type"] == "tool_reference":
                self.offered[_field(block, "tool_name")] = True

    # Results first: an engine wants every tool message right after the calls.
    def _user(self, blocks: list[Block]) -> None:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            if block["type"] == "tool_result":
                parts += self._tool_result(block)
        parts += self._parts([block for block in blocks if block["type"] != "tool_result"])
        if parts:
            self._last("user", [])["content"] += parts

    # Appends the tool message; returns its images, which only a user message may carry.
    def _tool_result(self, block: Block) -> list[dict[str, Any]]:
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

    def _parts(self, blocks: list[Block]) -> list[dict[str, Any]]:
        shows = "image" in self._support
        parts = [_image(block) if block["type"] == "image" and shows else _text(block) for block in blocks]
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts if part]

    def _assistant(self, blocks: list[Block]) -> None:
        texts = [_field(block, "text") for block in blocks if block["type"] == "text"]
        thoughts = [_field(block, "thinking") for block in blocks if block["type"] == "thinking"]
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        if not any((*texts, *thoughts, *calls)):
            return
        message = self._last("assistant", "")
        for field, more in (("content", texts), (self._support.reasoning, thoughts)):
            if text := "\n".join(filter(None, [message.get(field), *more])):
                message[field] = text
        if calls:
            message.setdefault("tool_calls", []).extend(calls)


def _blocks(content: object, where: str) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InvalidRequest(f"{where}: Input should be a valid string or list of blocks")
    for position, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise InvalidRequest(f"{where}.{position}.type: Field required")
    return content


def _field(block: Block, name: str) -> str:
    return str(block.get(name) or "")


def object_at(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    return value if isinstance(value := parent.get(name), dict) else {}


def _tool_name(tool: Block) -> str:
    return _field(object_at(tool, "definition") or tool, "name")


# What a model can read of one block; a block that we cannot show is named, not lost in silence.
def _text(block: Block) -> str:
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


def _document(source: dict[str, Any]) -> str:
    match source:
        case {"type": "text", "data": str(data)}:
            return data
        case {"type": "content"}:
            return "\n".join(map(_text, _blocks(source.get("content") or [], "document.source.content")))
    raise InvalidRequest(
        f"document: this model cannot read a source of type {source.get('media_type') or source.get('type')}. Send its"
        " text (pdftotext makes it) or its pages as images; /rewind takes it out of a Claude Code conversation"
    )


def _image(block: Block) -> dict[str, Any] | str:
    match object_at(block, "source"):
        case {"type": "base64", "data": str(data), **rest}:
            url = f"data:{rest.get('media_type') or 'image/png'};base64,{data}"
        case {"type": "url", "url": str(url)}:
            pass
        case _:
            return "[an image that is not in the request is not shown to this model]"
    return {"type": "image_url", "image_url": {"url": url}}


def _call(block: Block) -> dict[str, Any]:
    arguments = msgspec.json.encode(block.get("input") or {}).decode()
    function = {"name": _field(block, "name"), "arguments": arguments}
    return {"id": _field(block, "id"), "type": "function", "function": function}
