"""Anthropic's system and messages -> the engine's messages.

Append-only histories must stay so: nothing here depends on what follows a message, or on where cache_control lies,
else the engine's prefix cache would miss from that message on.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.errors import InvalidRequest

_BILLING = "x-anthropic-billing-header"
"""A system block of Claude Code's whose text varies and says nothing to a model."""
_ERROR_MARKS = ("error", "<tool_use_error>")


def engine_messages(system: object, messages: object) -> list[dict[str, Any]]:
    """Raises InvalidRequest, worded as Anthropic words it (Claude Code reads some of these texts)."""
    if not isinstance(messages, list):
        raise InvalidRequest("messages: Field required" if messages is None else "messages: Input should be a list")
    if not messages:
        raise InvalidRequest("messages: at least one message is required")
    history = _History()
    if text := system_text(system):
        history.system(text)
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant", "system"):
            raise InvalidRequest(f"messages.{position}.role: Input should be 'user' or 'assistant'")
        blocks = _blocks(message.get("content"), f"messages.{position}.content")
        if role == "system":
            history.system("\n\n".join(_texts(blocks)))
        elif role == "user":
            history.user(blocks)
        else:
            history.assistant(blocks)
    return history.finished()


def system_text(system: object) -> str:
    """The system prompt without the billing block."""
    blocks = _blocks(system, "system") if system is not None else []
    return "\n\n".join(text for text in _texts(blocks) if not text.startswith(_BILLING))


def referenced_tools(messages: object) -> set[str]:
    """Names of deferred tools that a tool_result has loaded."""
    found: set[str] = set()
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else []:
            inner = block.get("content") if isinstance(block, dict) else None
            for item in inner if isinstance(inner, list) else []:
                if isinstance(item, dict) and item.get("type") == "tool_reference":
                    found.add(str(item.get("tool_name")))
    return found


class _History:
    """The engine's messages so far. A user message is a list of parts until finished()."""

    def __init__(self) -> None:
        self._out: list[dict[str, Any]] = []

    def system(self, text: str) -> None:
        """At the head it is the system prompt. Further down most templates refuse one, so it joins the user's turn,
        in the words that Claude Code itself uses where a server refuses the role."""
        if not text:
            return
        if all(message["role"] == "system" for message in self._out):
            self._out.append({"role": "system", "content": text})
        else:
            self._user_parts().append(_part(f"<system-reminder>\n{text}\n</system-reminder>"))

    def user(self, blocks: list[dict[str, Any]]) -> None:
        """Results first: an engine wants every tool message right after the calls."""
        images: list[dict[str, Any]] = []
        for block in blocks:
            if block.get("type") == "tool_result":
                images += self._tool_result(block)
        parts = [part for block in blocks if block.get("type") != "tool_result" for part in _user_part(block)]
        if images or parts:
            self._user_parts().extend(images + parts)

    def assistant(self, blocks: list[dict[str, Any]]) -> None:
        texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
        thoughts = [str(block.get("thinking") or "") for block in blocks if block.get("type") == "thinking"]
        calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
        if not any(texts) and not any(thoughts) and not calls:
            return
        if not self._out or self._out[-1]["role"] != "assistant":
            self._out.append({"role": "assistant", "content": ""})
        message = self._out[-1]
        message["content"] = "\n".join(filter(None, [message["content"], *texts]))
        if any(thoughts):
            message["reasoning"] = "\n".join(filter(None, [message.get("reasoning", ""), *thoughts]))
        if calls:
            message.setdefault("tool_calls", []).extend(calls)

    def finished(self) -> list[dict[str, Any]]:
        for message in self._out:
            if message["role"] == "user" and all(part["type"] == "text" for part in message["content"]):
                message["content"] = "\n".join(part["text"] for part in message["content"])
        _join_system(self._out)
        return self._out

    def _user_parts(self) -> list[dict[str, Any]]:
        if not self._out or self._out[-1]["role"] != "user":
            self._out.append({"role": "user", "content": []})
        parts: list[dict[str, Any]] = self._out[-1]["content"]
        return parts

    def _tool_result(self, block: dict[str, Any]) -> list[dict[str, Any]]:
        """Appends the tool message; returns its images, which only a user message may carry."""
        inner = _blocks(block.get("content") or [], "tool_result.content")
        images = [part for item in inner if item.get("type") == "image" for part in _user_part(item)]
        texts = _texts(inner)
        if images:
            texts.append(f"[{len(images)} image(s): in the next user message]")
        text = "\n".join(texts)
        if block.get("is_error") and not text.lower().startswith(_ERROR_MARKS):
            text = f"Error: {text}"
        self._out.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id") or ""), "content": text})
        return images


def _join_system(out: list[dict[str, Any]]) -> None:
    """Templates take one system message."""
    while len(out) > 1 and out[0]["role"] == out[1]["role"] == "system":
        out[0]["content"] += "\n\n" + out.pop(1)["content"]


def _blocks(content: object, where: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InvalidRequest(f"{where}: Input should be a valid string or list of blocks")
    for position, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise InvalidRequest(f"{where}.{position}.type: Field required")
    return content


def _part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _texts(blocks: list[dict[str, Any]]) -> list[str]:
    return [text for block in blocks if block["type"] != "image" and (text := _text(block))]


def _text(block: dict[str, Any]) -> str:
    """What a model can read of one block; a block that we cannot show is named, not lost in silence."""
    match block["type"]:
        case "text":
            return str(block.get("text") or "")
        case "tool_reference":
            return f"Tool loaded: {block.get('tool_name')}"
        case "document":
            return _document(block)
        case "search_result":
            body = _texts(_blocks(block.get("content") or [], "search_result.content"))
            return "\n".join([str(block.get("title") or ""), str(block.get("source") or ""), *body])
        case other:
            return f"[a block of type {other} is not shown to this model]"


def _document(block: dict[str, Any]) -> str:
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    title = str(block.get("title") or "")
    if source.get("type") == "text":
        body = str(source.get("data") or "")
    elif source.get("type") == "content":
        body = "\n".join(_texts(_blocks(source.get("content") or [], "document.source.content")))
    else:
        body = f"[a document of type {source.get('media_type') or source.get('type')} is not shown to this model]"
    return "\n".join(filter(None, [title, body]))


def _user_part(block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] != "image":
        return [_part(text)] if (text := _text(block)) else []
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    if source.get("type") == "base64" and source.get("data"):
        url = f"data:{source.get('media_type') or 'image/png'};base64,{source['data']}"
    elif source.get("type") == "url" and source.get("url"):
        url = str(source["url"])
    else:
        return [_part("[an image that is not in the request is not shown to this model]")]
    return [{"type": "image_url", "image_url": {"url": url}}]


def _call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = msgspec.json.encode(block.get("input") or {}).decode()
    function = {"name": str(block.get("name") or ""), "arguments": arguments}
    return {"id": str(block.get("id") or ""), "type": "function", "function": function}
