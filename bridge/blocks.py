"""Events in the engine's order -> Anthropic's blocks: one open at a time, each opened once and closed once.

Fragments of parallel calls may interleave; what belongs to a later block is held and replayed when its turn comes.
A call ends when the outermost bracket of its arguments closes, or else with the stream.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from bridge.events import Text, Thinking, ToolPart

Kind: TypeAlias = Literal["thinking", "text", "tool_use"]


class Opened(msgspec.Struct, frozen=True, gc=False):
    index: int
    kind: Kind
    id: str = ""
    """Of a tool_use, as its `name`."""
    name: str = ""


class Piece(msgspec.Struct, frozen=True, gc=False):
    index: int
    kind: Kind
    text: str


class Closed(msgspec.Struct, frozen=True, gc=False):
    index: int
    kind: Kind


BlockEvent: TypeAlias = Opened | Piece | Closed


class _Arguments:
    """Follows a call's JSON just enough to see where its outermost bracket closes. What comes after is not part of
    it: vLLM 0.32 streams one `}` too many under tool_choice "required" (tests/data/sse/tools_three.sse)."""

    _OUTSIDE = re.compile(r'["{}\[\]]')
    _INSIDE = re.compile(r'["\\]')

    def __init__(self) -> None:
        self.closed = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def take(self, text: str) -> str:
        """The part of `text` that belongs to the arguments."""
        if self.closed:
            return ""
        at = 0
        if self._escaped and text:
            self._escaped, at = False, 1
        while found := (self._INSIDE if self._in_string else self._OUTSIDE).search(text, at):
            at = found.end()
            mark = found.group()
            if mark == "\\":
                self._escaped = at == len(text)
                at += 1
            elif mark == '"':
                self._in_string = not self._in_string
            elif mark in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self.closed = True
                    return text[:at]
        return text


class _Block:
    """One block that is open or waits. Text is not opened before its first visible character: engines put blank
    lines between reasoning and calls, and a blank text block would be in the history for ever."""

    __slots__ = ("arguments", "call", "ended", "id", "index", "kind", "name", "opened", "unsent")

    def __init__(self, kind: Kind, call: int | None) -> None:
        self.kind = kind
        self.call = call
        self.index = -1
        self.id = ""
        self.name = ""
        self.opened = False
        self.ended = False
        self.unsent: list[str] = []
        self.arguments = _Arguments()

    def ready(self) -> bool:
        if self.kind == "tool_use":
            return bool(self.name)
        return any(not part.isspace() for part in self.unsent)

    def complete(self) -> bool:
        """Whether a call's arguments are all there. Anything but a call is complete as soon as something follows."""
        return self.kind != "tool_use" or self.arguments.closed


class Blocks:
    """take() each content event, then finish() once."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._queue: list[_Block] = []
        """The first is the one that may be open; the others are held."""
        self._by_call: dict[int, _Block] = {}
        self._opened = 0
        self.tools = 0
        """tool_use blocks opened so far."""

    def take(self, event: Thinking | Text | ToolPart) -> list[BlockEvent]:
        if isinstance(event, ToolPart):
            block = self._tool_block(event)
            if block.ended:
                return []
            block.id = block.id or event.id or ""
            block.name = block.name or event.name or ""
            text = block.arguments.take(event.arguments)
        else:
            block = self._plain_block("thinking" if isinstance(event, Thinking) else "text")
            text = event.text
        if text:
            block.unsent.append(text)
        out: list[BlockEvent] = []
        self._advance(out, block)
        return out

    def finish(self) -> list[BlockEvent]:
        """Close what is open and replay what is held, in order."""
        out: list[BlockEvent] = []
        while self._queue:
            self._flush(self._queue[0], out)
            self._close_head(out)
        return out

    def abandon(self) -> list[BlockEvent]:
        """Close what is open and forget what is held: the answer failed."""
        out: list[BlockEvent] = []
        if self._queue and self._queue[0].opened:
            del self._queue[1:]
            self._close_head(out)
        self._queue.clear()
        return out

    def _tool_block(self, event: ToolPart) -> _Block:
        block = self._by_call.get(event.call)
        if block is None:
            block = self._by_call[event.call] = _Block("tool_use", event.call)
            self._queue.append(block)
        return block

    def _plain_block(self, kind: Kind) -> _Block:
        if not self._queue or self._queue[-1].kind != kind:
            self._queue.append(_Block(kind, None))
        return self._queue[-1]

    def _advance(self, out: list[BlockEvent], touched: _Block) -> None:
        """Send what the head has; while something waits behind a complete head, close it and go on with the next."""
        if touched is self._queue[0]:
            self._flush(touched, out)
        while len(self._queue) > 1 and self._queue[0].complete():
            self._close_head(out)
            self._flush(self._queue[0], out)

    def _flush(self, block: _Block, out: list[BlockEvent]) -> None:
        if not block.opened:
            if not block.ready():
                return
            block.opened = True
            block.index = self._opened
            self._opened += 1
            self.tools += block.kind == "tool_use"
            call_id = block.id or f"toolu_{self._message_id.removeprefix('msg_')}{block.call}"
            out.append(Opened(block.index, block.kind, call_id if block.kind == "tool_use" else "", block.name))
        out += [Piece(block.index, block.kind, text) for text in block.unsent]
        block.unsent.clear()

    def _close_head(self, out: list[BlockEvent]) -> None:
        block = self._queue.pop(0)
        block.ended = True
        if block.opened:
            out.append(Closed(block.index, block.kind))
