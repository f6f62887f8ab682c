"""Blocks -> what an Anthropic client reads: SSE bytes as they come, or one message at the end."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Protocol, assert_never

import msgspec

from bridge.blocks import BlockEvent, Closed, Kind, Opened, Piece
from bridge.errors import BridgeError
from bridge.events import Usage

_json = msgspec.json.encode
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


class Encoder(Protocol):
    """One answer to one client. Bytes that are empty mean: nothing to send yet."""

    streams: bool

    def start(self, usage: Usage) -> bytes: ...
    def block(self, event: BlockEvent) -> bytes: ...
    def end(self, stop_reason: str, stop_sequence: str | None, usage: Usage) -> bytes: ...


def usage_json(usage: Usage) -> dict[str, int]:
    """Anthropic counts what was read from the cache apart from the rest of the prompt."""
    cached = min(usage.cached or 0, usage.prompt)
    return {
        "input_tokens": usage.prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.output,
    }


def signature(message_id: str, index: int) -> str:
    """Opaque and never empty: clients refuse a thinking block without one, and send it back unchanged."""
    return base64.b64encode(hashlib.sha256(f"{message_id}:{index}".encode()).digest()).decode()


def error_event(error: BridgeError, request_id: str) -> bytes:
    return b"event: error\ndata: %b\n\n" % error.envelope(request_id)


def _frame(name: str, payload: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _json({"type": name, **payload}))


def _empty_message(message_id: str, model: str) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _new_block(opened: Opened) -> dict[str, Any]:
    if opened.kind == "text":
        return {"type": "text", "text": ""}
    if opened.kind == "thinking":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "tool_use", "id": opened.id, "name": opened.name, "input": {}}


def _delta(name: bytes, field: bytes) -> bytes:
    head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"'
    return head + name + b'","' + field + b'":%b}}\n\n'


_DELTA: dict[Kind, bytes] = {
    "text": _delta(b"text_delta", b"text"),
    "thinking": _delta(b"thinking_delta", b"thinking"),
    "tool_use": _delta(b"input_json_delta", b"partial_json"),
}


class StreamEncoder:
    """Server-sent events, one per call, in the order of https://docs.anthropic.com/en/api/messages-streaming"""

    streams = True

    def __init__(self, message_id: str, model: str) -> None:
        self._id = message_id
        self._model = model

    def start(self, usage: Usage) -> bytes:
        message = _empty_message(self._id, self._model)
        return _frame("message_start", {"message": {**message, "usage": usage_json(usage)}})

    def block(self, event: BlockEvent) -> bytes:
        match event:
            case Piece():
                return _DELTA[event.kind] % (event.index, _json(event.text))
            case Opened():
                return _frame("content_block_start", {"index": event.index, "content_block": _new_block(event)})
            case Closed():
                return self._sign(event) + _frame("content_block_stop", {"index": event.index})
            case _:
                assert_never(event)

    def end(self, stop_reason: str, stop_sequence: str | None, usage: Usage) -> bytes:
        delta = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
        return _frame("message_delta", {"delta": delta, "usage": usage_json(usage)}) + _frame("message_stop", {})

    def _sign(self, event: Closed) -> bytes:
        if event.kind != "thinking":
            return b""
        delta = {"type": "signature_delta", "signature": signature(self._id, event.index)}
        return _frame("content_block_delta", {"index": event.index, "delta": delta})


class MessageEncoder:
    """The same answer as one JSON object."""

    streams = False

    def __init__(self, message_id: str, model: str) -> None:
        self._id = message_id
        self._model = model
        self._content: list[dict[str, Any]] = []
        self._parts: list[str] = []

    def start(self, usage: Usage) -> bytes:
        return b""

    def block(self, event: BlockEvent) -> bytes:
        match event:
            case Piece():
                self._parts.append(event.text)
            case Opened():
                self._content.append(_new_block(event))
            case Closed():
                self._close(event)
            case _:
                assert_never(event)
        return b""

    def end(self, stop_reason: str, stop_sequence: str | None, usage: Usage) -> bytes:
        message = _empty_message(self._id, self._model)
        message |= {"content": self._content, "stop_reason": stop_reason, "stop_sequence": stop_sequence}
        return _json({**message, "usage": usage_json(usage)})

    def _close(self, event: Closed) -> None:
        block, whole = self._content[-1], "".join(self._parts)
        self._parts.clear()
        if event.kind == "text":
            block["text"] = whole
        elif event.kind == "thinking":
            block |= {"thinking": whole, "signature": signature(self._id, event.index)}
        else:
            block["input"] = _tool_input(whole)


def _tool_input(arguments: str) -> dict[str, Any]:
    """Always an object, as the API promises; arguments that are not one come as Claude Code itself reports them."""
    if not arguments.strip():
        return {}
    try:
        parsed = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        parsed = None
    if isinstance(parsed, dict):
        return parsed
    return {"__unparsedToolInput": {"raw": arguments, "len": len(arguments)}}
