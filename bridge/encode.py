"""Anthropic's events: made and framed (https://docs.anthropic.com/en/api/messages-streaming)."""

import base64
import hashlib
from typing import Any, TypeAlias

import msgspec

from bridge.decode import Kind
from bridge.report import Turn

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
def _usage(turn: Turn) -> dict[str, int]:
    prompt = turn.input_tokens or 0
    cached = min(turn.cached_tokens or 0, prompt)
    read = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": cached}
    return {"input_tokens": prompt - cached, **read, "output_tokens": turn.output_tokens}


def message(turn: Turn, content: list[Sent], stop_reason: str | None = None, stop_sequence: str | None = None) -> Sent:
    head = {"id": turn.id, "type": "message", "role": "assistant", "model": turn.model, "content": content}
    return {**head, "stop_reason": stop_reason, "stop_sequence": stop_sequence, "usage": _usage(turn)}


def message_delta(turn: Turn, stop_reason: str | None = None, stop_sequence: str | None = None) -> Sent:
    delta = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
    return {"type": "message_delta", "delta": delta, "usage": _usage(turn)}


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
