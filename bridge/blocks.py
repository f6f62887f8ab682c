"""Anthropic's events (https://docs.anthropic.com/en/api/messages-streaming), and the blocks of content among them."""

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from bridge.arguments import Arguments, Guard, parsed, unparsed
from bridge.decode import Kind, Part
from bridge.report import Turn

Sent: TypeAlias = dict[str, Any]  # one event as its JSON, `type` first
as_json = msgspec.json.encode


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
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
    block = {"type": kind, **empty.get(kind, {"id": call_id, "name": name, "input": {}})}
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, kind: Kind, text: str) -> Sent:
    name, field = ("input_json_delta", "partial_json") if kind == "tool_use" else (f"{kind}_delta", kind)
    return {"type": "content_block_delta", "index": index, "delta": {"type": name, field: text}}


# Before a thinking block stops: opaque and never empty, since clients refuse it else, and send it back.
def signature_delta(index: int, message_id: str) -> Sent:
    signature = base64.b64encode(hashlib.sha256(f"{message_id}:{index}".encode()).digest()).decode()
    delta = {"type": "signature_delta", "signature": signature}
    return {"type": "content_block_delta", "index": index, "delta": delta}


@dataclass(slots=True)
class _Block:
    kind: Kind
    call: int | None
    id: str = ""
    name: str = ""
    unsent: str = ""
    sent: list[str] = field(default_factory=list)
    index: int | None = None  # once it is opened
    arguments: Arguments = field(default_factory=Arguments)


# Fragments of parallel calls may interleave; what belongs to a later block is held and replayed when its turn comes.
# A call ends when the outermost bracket of its arguments closes, or else with the stream.
class Blocks:
    """take() each part, then finish() once: one block open at a time, opened and closed once.

    `content` are the blocks that were closed, as a whole message has them."""

    def __init__(self, message_id: str, guard: Guard) -> None:
        self.content: list[Sent] = []
        self._message_id = message_id
        self._guard = guard
        self._block: _Block | None = None
        self._held: list[Part] = []
        self._ended: set[int | None] = set()
        self._opened = 0

    def take(self, part: Part) -> list[Sent]:
        if part.call in self._ended:
            return []
        block = self._block = self._block or _Block(part.kind, part.call)
        if block.kind != part.kind or block.call != part.call:
            if block.kind != "tool_use" or block.arguments.closed:
                return self._close(block, complete=True) + self.take(part)
            self._held.append(part)
            return []
        if block.kind == "tool_use":
            block.id, block.name = block.id or part.id, block.name or part.name
            block.unsent += block.arguments.take(part.text)
        else:
            block.unsent += part.text
        out = self._send(block, whole=False)
        return out + self._close(block, complete=True) if self._held and block.arguments.closed else out

    # Close what is open and replay what is held, in order. `complete`: the engine was done.
    def finish(self, complete: bool) -> list[Sent]:
        out: list[Sent] = []
        while self._block is not None:
            out += self._close(self._block, complete)
        return out

    # Close what is open and forget what is held: the answer failed.
    def abandon(self) -> list[Sent]:
        self._held.clear()
        return self.finish(complete=False)

    def _send(self, block: _Block, whole: bool) -> list[Sent]:
        out: list[Sent] = []
        if block.index is None:
            # Engines put blank lines between reasoning and calls, which would be in the history for ever.
            if not (block.name if block.kind == "tool_use" else block.unsent.strip()):
                return out
            block.index = self._opened
            self._opened += 1
            block.id = block.id or f"toolu_{self._message_id.removeprefix('msg_')}{block.call}"
            out.append(block_start(block.index, block.kind, block.id, block.name))
        if block.unsent and (whole or not self._guard.holds(block.name)):
            out.append(block_delta(block.index, block.kind, block.unsent))
            block.sent.append(block.unsent)
            block.unsent = ""
        return out

    def _close(self, block: _Block, complete: bool) -> list[Sent]:
        held, self._held, self._block = self._held, [], None
        if block.kind == "tool_use":
            self._ended.add(block.call)
            block.unsent += block.arguments.finish(complete)
            block.unsent = self._guard.review(block.name, "".join([*block.sent, block.unsent])) or block.unsent
        out = self._send(block, whole=True)
        if block.index is not None:
            out += self._stop(block, block.index)
        for part in held:
            out += self.take(part)
        return out

    def _stop(self, block: _Block, index: int) -> list[Sent]:
        text, out = "".join(block.sent), []
        whole: Sent = {"type": block.kind, block.kind: text}
        if block.kind == "thinking":
            out = [signature_delta(index, self._message_id)]
            whole["signature"] = out[0]["delta"]["signature"]
        elif block.kind == "tool_use":
            value = parsed(text)
            whole = {"type": "tool_use", "id": block.id, "name": block.name}
            whole["input"] = unparsed(text) if value is None else value
        self.content.append(whole)
        return [*out, {"type": "content_block_stop", "index": index}]
