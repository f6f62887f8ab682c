"""Anthropic's system and messages -> the engine's messages.

Append-only histories must stay so: nothing here depends on what follows a message, or on where cache_control lies,
else the engine's prefix cache would miss from that message on.
"""

from typing import Any, TypeAlias

import msgspec

from bridge.errors import InvalidRequest

Block: TypeAlias = dict[str, Any]
_BILLING = "x-anthropic-billing-header"  # a system block of Claude Code's that varies and says nothing to a model
_ERROR_MARKS = ("error", "<tool_use_error>")


class History:
    """`messages` are the engine's, `loaded` the names of deferred tools that a tool_result has loaded. Raises
    InvalidRequest, worded as Anthropic words it (Claude Code reads some of these texts)."""

    def __init__(self, system: object, messages: object) -> None:
        self.messages: list[dict[str, Any]] = []
        self.loaded: set[str] = set()
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
            if role == "system":
                self._system("\n\n".join(_texts(blocks)))
            elif role == "user":
                self._user(blocks)
            else:
                self._assistant(blocks)
        for message in self.messages:
            if message["role"] == "user" and all(part["type"] == "text" for part in message["content"]):
                message["content"] = "\n".join(part["text"] for part in message["content"])

    def _last(self, role: str, content: object) -> dict[str, Any]:
        """The last message, if it is of this role; else a new one, since templates take no two of a role in a row."""
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

    def _user(self, blocks: list[Block]) -> None:
        """Results first: an engine wants every tool message right after the calls."""
        parts: list[dict[str, Any]] = []
        for block in blocks:
            if block["type"] == "tool_result":
                parts += self._tool_result(block)
        for block in blocks:
            if block["type"] == "image":
                parts.append(_image(block))
            elif block["type"] != "tool_result":
                parts += map(_part, _texts([block]))
        if parts:
            self._last("user", [])["content"] += parts

    def _tool_result(self, block: Block) -> list[dict[str, Any]]:
        """Appends the tool message; returns its images, which only a user message may carry."""
        inner = _blocks(block.get("content") or [], "tool_result.content")
        self.loaded |= {str(item.get("tool_name")) for item in inner if item["type"] == "tool_reference"}
        images = [_image(item) for item in inner if item["type"] == "image"]
        texts = _texts(inner)
        if images:
            texts.append(f"[{len(images)} image(s): in the next user message]")
        text = "\n".join(texts)
        if block.get("is_error") and not text.lower().startswith(_ERROR_MARKS):
            text = f"Error: {text}"
        self.messages.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id") or ""), "content": text})
        return images

    def _assistant(self, blocks: list[Block]) -> None:
        texts = [_field(block, "text") for block in blocks if block["type"] == "text"]
        thoughts = [_field(block, "thinking") for block in blocks if block["type"] == "thinking"]
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        if not any((*texts, *thoughts, *calls)):
            return
        message = self._last("assistant", "")
        message["content"] = "\n".join(filter(None, [message["content"], *texts]))
        if any(thoughts):
            message["reasoning"] = "\n".join(filter(None, [message.get("reasoning", ""), *thoughts]))
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


def _text(block: Block) -> str:
    """What a model can read of one block; a block that we cannot show is named, not lost in silence."""
    match block["type"]:
        case "text":
            return _field(block, "text")
        case "tool_reference":
            return f"Tool loaded: {block.get('tool_name')}"
        case "document":
            return "\n".join(filter(None, [_field(block, "title"), _document(_source(block))]))
        case "search_result":
            body = _texts(_blocks(block.get("content") or [], "search_result.content"))
            return "\n".join([_field(block, "title"), _field(block, "source"), *body])
        case other:
            return f"[a block of type {other} is not shown to this model]"


def _source(block: Block) -> dict[str, Any]:
    return source if isinstance(source := block.get("source"), dict) else {}


def _document(source: dict[str, Any]) -> str:
    match source.get("type"):
        case "text":
            return _field(source, "data")
        case "content":
            return "\n".join(_texts(_blocks(source.get("content") or [], "document.source.content")))
        case other:
            return f"[a document of type {source.get('media_type') or other} is not shown to this model]"


def _image(block: Block) -> dict[str, Any]:
    match _source(block):
        case {"type": "base64", "data": str(data), **rest}:
            url = f"data:{rest.get('media_type') or 'image/png'};base64,{data}"
        case {"type": "url", "url": str(url)}:
            pass
        case _:
            return _part("[an image that is not in the request is not shown to this model]")
    return {"type": "image_url", "image_url": {"url": url}}


def _call(block: Block) -> dict[str, Any]:
    arguments = msgspec.json.encode(block.get("input") or {}).decode()
    function = {"name": _field(block, "name"), "arguments": arguments}
    return {"id": _field(block, "id"), "type": "function", "function": function}
