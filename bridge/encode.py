"""Anthropic's events: made and framed (https://docs.anthropic.com/en/api/messages-streaming)."""

import base64
import hashlib
from typing import Any, TypeAlias

import msgspec

from bridge.decode import Kind, Usage

Sent: TypeAlias = dict[str, Any]  # one event as its JSON, `type` first
as_json = msgspec.json.encode
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
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), as_json(event))


PING = frame({"type": "ping"})


# Anthropic counts what was read from the cache apart from the rest of the prompt.
def _usage_json(usage: Usage) -> dict[str, int]:
    cached = min(usage.cached or 0, usage.prompt)
    read = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": cached}
    return {"input_tokens": usage.prompt - cached, **read, "output_tokens": usage.output}


def message(message_id: str, model: str, usage: Usage, content: list[Sent], **stop: str | None) -> Sent:
    ends = {"stop_reason": None, "stop_sequence": None, **stop}
    head = {"id": message_id, "type": "message", "role": "assistant", "model": model, "content": content}
    return {**head, **ends, "usage": _usage_json(usage)}


def message_delta(usage: Usage, stop_reason: str | None = None, stop_sequence: str | None = None) -> Sent:
    delta = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
    return {"type": "message_delta", "delta": delta, "usage": _usage_json(usage)}


def block_start(index: int, kind: Kind, call_id: str, name: str) -> Sent:
    block = _EMPTY.get(kind) or {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, kind: Kind, text: str) -> Sent:
    name, field = _DELTAS[kind]
    return {"type": "content_block_delta", "index": index, "delta": {"type": name, field: text}}


# Before a thinking block stops: opaque and never empty, since clients refuse it else, and send it back.
def signature_delta(index: int, message_id: str) -> Sent:
    signature = base64.b64encode(hashlib.sha256(f"{message_id}:{index}".encode()).digest()).decode()
    delta = {"type": "signature_delta", "signature": signature}
    return {"type": "content_block_delta", "index": index, "delta": delta}
