"""Anthropic's system and messages -> the engine's messages.

Append-only histories must stay so: nothing here depends on what follows a message, or on where cache_control lies,
else the engine's prefix cache would miss from that message on.
"""

from typing import Any, TypeAlias

import msgspec

from bridge.errors import InvalidRequest
from bridge.support import Support

Block: TypeAlias = dict[str, Any]
_BILLING = "x-anthropic-billing-header"  # a system block of Claude Code's that varies and says nothing to a model
_ERROR_MARKS = ("error", "<tool_use_error>")
_NO_IMAGE = "[an image is not shown: this model reads text only]"
_TOOL_CHANGES = {"tool_addition": True, "tool_removal": False}


class History:
    """The engine's `messages`, and what they do to the tools. Raises InvalidRequest, worded as Anthropic words it."""

    def __init__(self, system: object, messages: object, support: Support) -> None:
        self.messages: list[dict[str, Any]] = []
        self.offered: dict[str, bool] = {}  # by name: loaded or added since, or removed
        self.defined: list[dict[str, Any]] = []  # tools that a message brought whole
        self._support = support
        if not isinstance(messages, list):
            raise InvalidRequest("messages: Field required" if messages is None else "messages: Input should be a list")
        if not messages:
            raise InvalidRequest("messages: at least one message is required")
        texts = _texts(_blocks(system or [], "system"))
        self._system("\n\n".join(text for text in texts if not text.startswith(_BILLING)))
        for position, message in enumerate(messages):
            role = message.get("role") if isinstance(message, dict) else None
            if role not in ("user", "assistant", "system"):
                raise InvalidRequest(f"messages.{position}.role: Input should be 'user' or 'assistant'")
            blocks = _blocks(message.get("content"), f"messages.{position}.content")
            self._change_tools(blocks)
            if role == "system":
                self._system("\n\n".join(_texts(blocks)))
            elif role == "user":
                self._user(blocks)
            else:
                self._assistant(blocks)
        for message in self.messages:
            if message["role"] == "user" and all(part["type"] == "text" for part in message["content"]):
                message["content"] = "\n".join(part["text"] for part in message["content"])

    def _change_tools(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block["type"] in _TOOL_CHANGES:
                tool = _object(block, "tool")
                definition = _object(tool, "definition")
                self.offered[str((definition or tool).get("name"))] = _TOOL_CHANGES[block["type"]]
                self.defined += [definition] if definition else []

    # The last message, if it is of this role; else a new one, since templates take no two of a role in a row.
    def _last(self, role: str, content: object) -> dict[str, Any]:
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": content})
        return self.messages[-1]

    def _system(self, text: str) -> None:
        if text and all(message["role"] == "system" for message in self.messages):
            head = self._last("system", "")
            head["content"] = "\n\n".join(filter(None, [head["content"], text]))
        elif text:
            # Further down most templates refuse one, so it joins the user's turn, in the words that Claude Code itself
            # uses where a server refuses the role.
            reminder = _part(f"<system-reminder>\n{text}\n</system-reminder>")
            self._last("user", [])["content"].append(reminder)

    # Results first: an engine wants every tool message right after the calls.
    def _user(self, blocks: list[Block]) -> None:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            if block["type"] == "tool_result":
                parts += self._tool_result(block)
        for block in blocks:
            if block["type"] == "image":
                parts.append(self._image(block))
            elif block["type"] != "tool_result":
                parts += map(_part, _texts([block]))
        if parts:
            self._last("user", [])["content"] += parts

    # Appends the tool message; returns its images, which only a user message may carry.
    def _tool_result(self, block: Block) -> list[dict[str, Any]]:
        inner = _blocks(block.get("content") or [], "tool_result.content")
        self.offered |= {str(item.get("tool_name")): True for item in inner if item["type"] == "tool_reference"}
        images = [self._image(item) for item in inner if item["type"] == "image"]
        texts = _texts(inner)
        if images:
            shown = "image" in self._support
            texts.append(f"[{len(images)} image(s): in the next user message]" if shown else _NO_IMAGE)
            images = images if shown else []
        text = "\n".join(texts)
        if block.get("is_error") and not text.lower().startswith(_ERROR_MARKS):
            text = f"Error: {text}"
        self.messages.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id") or ""), "content": text})
        return images

    def _image(self, block: Block) -> dict[str, Any]:
        match _object(block, "source"):
            case _ if "image" not in self._support:
                return _part(_NO_IMAGE)
            case {"type": "base64", "data": str(data), **rest}:
                url = f"data:{rest.get('media_type') or 'image/png'};base64,{data}"
            case {"type": "url", "url": str(url)}:
                pass
            case _:
                return _part("[an image that is not in the request is not shown to this model]")
        return {"type": "image_url", "image_url": {"url": url}}

    def _assistant(self, blocks: list[Block]) -> None:
        texts = [_field(block, "text") for block in blocks if block["type"] == "text"]
        thoughts = [_field(block, "thinking") for block in blocks if block["type"] == "thinking"]
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        if not any((*texts, *thoughts, *calls)):
            return
        message = self._last("assistant", "")
        message["content"] = "\n".join(filter(None, [message["content"], *texts]))
        if any(thoughts):
            field = self._support.reasoning
            message[field] = "\n".join(filter(None, [message.get(field, ""), *thoughts]))
        if calls:
            message.setdefault("tool_calls", []).extend(calls)


def _blocks(content: object, where: str) -> list[Block]:
    if isinstance(content, str):
        return [_part(content)]
    if not isinstance(content, list):
        raise InvalidRequest(f"{where}: Input should be a valid string or list of blocks")
    for position, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise InvalidRequest(f"{where}.{position}.type: Field required")
    return content


def _part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _field(block: Block, name: str) -> str:
    return str(block.get(name) or "")


def _texts(blocks: list[Block]) -> list[str]:
    return [text for block in blocks if block["type"] != "image" and (text := _text(block))]


# What a model can read of one block; a block that we cannot show is named, not lost in silence.
def _text(block: Block) -> str:
    match block["type"]:
        case "text":
            return _field(block, "text")
        case "tool_reference":
            return f"Tool loaded: {block.get('tool_name')}"
        case "tool_addition" | "tool_removal" as change:
            tool = _object(block, "tool")
            return f"Tool {change[5:]}: {(_object(tool, 'definition') or tool).get('name')}"
        case "document":
            return "\n".join(filter(None, [_field(block, "title"), _document(_object(block, "source"))]))
        case "search_result":
            body = _texts(_blocks(block.get("content") or [], "search_result.content"))
            return "\n".join([_field(block, "title"), _field(block, "source"), *body])
        case other:
            return f"[a block of type {other} is not shown to this model]"


def _object(parent: Block, name: str) -> dict[str, Any]:
    return value if isinstance(value := parent.get(name), dict) else {}


def _document(source: dict[str, Any]) -> str:
    match source:
        case {"type": "text", "data": str(data)}:
            return data
        case {"type": "content"}:
            return "\n".join(_texts(_blocks(source.get("content") or [], "document.source.content")))
    raise InvalidRequest(
        f"document: this model cannot read a source of type {source.get('media_type') or source.get('type')}. Send its"
        " text (pdftotext makes it) or its pages as images; /rewind takes it out of a Claude Code conversation"
    )


def _call(block: Block) -> dict[str, Any]:
    arguments = msgspec.json.encode(block.get("input") or {}).decode()
    function = {"name": _field(block, "name"), "arguments": arguments}
    return {"id": _field(block, "id"), "type": "function", "function": function}
