"""Anthropic's events: made, framed, folded into one message (https://docs.anthropic.com/en/api/messages-streaming)."""

import base64
import hashlib
from typing import Any, TypeAlias

import msgspec

from bridge.decode import Kind, Usage

Sent: TypeAlias = dict[str, Any]  # one event as its JSON, `type` first
_json = msgspec.json.encode
_EMPTY: dict[Kind, Sent] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
_DELTAS: dict[Kind, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


def frame(event: Sent) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _json(event))


PING = frame({"type": "ping"})


def usage_json(usage: Usage) -> dict[str, int]:
    """Anthropic counts what was read from the cache apart from the rest of the prompt."""
    cached = min(usage.cached or 0, usage.prompt)
    read = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": cached}
    return {"input_tokens": usage.prompt - cached, **read, "output_tokens": usage.output}


def message_start(message_id: str, model: str, usage: Usage) -> Sent:
    empty: Sent = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage_json(usage)}
    message = {"id": message_id, "type": "message", "role": "assistant", "model": model, **empty}
    return {"type": "message_start", "message": message}


def message_end(stop_reason: str, stop_sequence: str | None, usage: Usage) -> list[Sent]:
    delta = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
    return [{"type": "message_delta", "delta": delta, "usage": usage_json(usage)}, {"type": "message_stop"}]


def block_start(index: int, kind: Kind, call_id: str, name: str) -> Sent:
    block = _EMPTY.get(kind) or {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": dict(block)}


def block_delta(index: int, kind: Kind, text: str) -> Sent:
    name, field = _DELTAS[kind]
    return {"type": "content_block_delta", "index": index, "delta": {"type": name, field: text}}


def block_stop(index: int, kind: Kind, message_id: str) -> list[Sent]:
    """A thinking block is signed before: opaque and never empty, since clients refuse it else, and send it back."""
    stop: list[Sent] = [{"type": "content_block_stop", "index": index}]
    if kind != "thinking":
        return stop
    signature = base64.b64encode(hashlib.sha256(f"{message_id}:{index}".encode()).digest()).decode()
    delta = {"type": "signature_delta", "signature": signature}
    return [{"type": "content_block_delta", "index": index, "delta": delta}, *stop]


class Fold:
    """The same events as one JSON object, which the last of them gives."""

    def __init__(self) -> None:
        self._message: Sent = {}
        self._pieces: dict[str, list[str]] = {}

    def take(self, event: Sent) -> bytes:
        match event["type"]:
            case "message_start":
                self._message = event["message"]
            case "content_block_start":
                self._message["content"].append(event["content_block"])
            case "content_block_delta":
                _, field = event["delta"]
                self._pieces.setdefault(field, []).append(event["delta"][field])
            case "content_block_stop":
                self._close(self._message["content"][-1])
            case "message_delta":
                self._message |= event["delta"]
                self._message["usage"] = event["usage"]
            case "message_stop":
                return _json(self._message)
        return b""

    def _close(self, block: Sent) -> None:
        whole = {field: "".join(pieces) for field, pieces in self._pieces.items()}
        self._pieces.clear()
        arguments = whole.pop("partial_json", "")
        block |= {"input": _tool_input(arguments)} if arguments.strip() else whole


def _tool_input(arguments: str) -> dict[str, Any]:
    """Always an object, as the API promises; arguments that are not one come as Claude Code itself reports them."""
    try:
        parsed = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"__unparsedToolInput": {"raw": arguments, "len": len(arguments)}}
