"""Anthropic's events (https://docs.anthropic.com/en/api/messages-streaming), and the blocks of content among them."""

import hashlib
from typing import Any, TypeAlias

import msgspec

from bridge.arguments import Arguments, Guard, as_json, parsed, unparsed
from bridge.decode import Kind, Part
from bridge.report import Turn

Sent: TypeAlias = dict[str, Any]  # one event as its JSON, `type` first


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


class _Block(msgspec.Struct):
    kind: Kind
    call: int | None
    id: str = ""
    name: str = ""
    unsent: str = ""
    sent: list[str] = []
    index: int | None = None  # once it is opened
    arguments: Arguments = msgspec.field(default_factory=Arguments)

    # As a message has it, and with neither text nor signature as its start has it.
    def content(self, text: str = "", signature: str = "") -> Sent:
        if self.kind == "tool_use":
            value = parsed(text)
            head = {"type": "tool_use", "id": self.id, "name": self.name}
            return {**head, "input": unparsed(text) if value is None else value}
        signed = {"signature": signature} if self.kind == "thinking" else {}
        return {"type": self.kind, self.kind: text, **signed}


# The type and the field of a delta.
_DELTAS = {kind: (f"{kind}_delta", kind) for kind in ("thinking", "signature", "text")}
_DELTAS["tool_use"] = ("input_json_delta", "partial_json")


def _delta(block: _Block, kind: str, text: str) -> Sent:
    name, field = _DELTAS[kind]
    return {"type": "content_block_delta", "index": block.index, "delta": {"type": name, field: text}}


# Fragments of parallel calls may interleave; what belongs to a later block is held and replayed when its turn comes.
# A call ends when the outermost bracket of its arguments closes, or else with the stream.
# take() each part, then finish() once: one block open at a time, opened and closed once. `content` are the blocks that
# were closed, as a whole message has them.
class Blocks:
    def __init__(self, message_id: str, guard: Guard) -> None:
        self.content: list[Sent] = []
        self._message_id, self._guard = message_id, guard
        self._block: _Block | None = None
        self._held: list[Part] = []
        self._ended: set[int | None] = set()

    def take(self, part: Part) -> list[Sent]:
        if part.call in self._ended:
            return []
        block = self._block = self._block or _Block(part.kind, part.call)
        if block.kind != part.kind or block.call != part.call:
            if block.kind != "tool_use" or block.arguments.closed:
                return self._close(block, complete=True) + self.take(part)
            self._held.append(part)
            return []
        block.id, block.name = block.id or part.id, block.name or part.name
        block.unsent += block.arguments.take(part.text) if block.kind == "tool_use" else part.text
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
            block.index = len(self.content)
            block.id = block.id or f"toolu_{self._message_id.removeprefix('msg_')}{block.call}"
            out.append({"type": "content_block_start", "index": block.index, "content_block": block.content()})
        if block.unsent and (whole or not (block.name and self._guard.holds(block.name))):
            out.append(_delta(block, block.kind, block.unsent))
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
            # Opaque and never empty, since clients refuse a thinking block else, and send it back.
            signature = hashlib.sha256(f"{self._message_id}:{block.index}".encode()).hexdigest()
            out += [_delta(block, "signature", signature)] if block.kind == "thinking" else []
            out.append({"type": "content_block_stop", "index": block.index})
            self.content.append(block.content("".join(block.sent), signature))
        return out + [event for part in held for event in self.take(part)]
