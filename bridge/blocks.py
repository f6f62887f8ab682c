"""Parts in the engine's order -> Anthropic's content_block events: one block open at a time, opened and closed once.

Fragments of parallel calls may interleave; what belongs to a later block is held and replayed when its turn comes.
A call ends when the outermost bracket of its arguments closes, or else with the stream.
"""

import re
from dataclasses import dataclass, field

from bridge.decode import Kind, Part
from bridge.encode import Sent, block_delta, block_start, block_stop

_MARK = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


@dataclass(slots=True)
class _Arguments:
    """Follows a call's JSON just enough to see where its outermost bracket closes."""

    closed: bool = False
    depth: int = 0
    quoted: bool = False
    escaping: bool = False

    def take(self, text: str) -> str:
        if self.closed or not text:
            return ""
        start, self.escaping = int(self.escaping), False
        for found in _MARK.finditer(text, start):
            mark = found.group()
            if mark[0] == "\\":
                self.escaping = len(mark) == 1
            elif mark == '"':
                self.quoted = not self.quoted
            elif not self.quoted:
                self.depth += 1 if mark in "{[" else -1
                if self.depth <= 0:
                    # The rest is dropped: vLLM 0.32 streams one `}` too many under tool_choice "required"
                    # (tests/data/sse/tools_three.sse).
                    self.closed = True
                    return text[: found.end()]
        return text


@dataclass(slots=True)
class _Block:
    """The one that comes now. It has an index once it is opened."""

    kind: Kind
    call: int | None
    id: str = ""
    name: str = ""
    unsent: str = ""
    index: int | None = None
    arguments: _Arguments = field(default_factory=_Arguments)


class Blocks:
    """take() each part, then finish() once. `called` says whether a tool_use block was opened."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._block: _Block | None = None
        self._held: list[Part] = []
        self._ended: set[int] = set()
        self._opened = 0
        self.called = False

    def take(self, part: Part) -> list[Sent]:
        if part.call in self._ended:
            return []
        block = self._block = self._block or _Block(part.kind, part.call)
        complete = block.kind != "tool_use" or block.arguments.closed
        if (block.kind, block.call) != (part.kind, part.call):
            if complete:
                return self._close(block) + self.take(part)
            self._held.append(part)
            return []
        block.id, block.name = block.id or part.id, block.name or part.name
        block.unsent += block.arguments.take(part.text) if block.kind == "tool_use" else part.text
        out = self._send(block)
        return out + self._close(block) if self._held and block.arguments.closed else out

    def finish(self) -> list[Sent]:
        """Close what is open and replay what is held, in order."""
        out: list[Sent] = []
        while self._block is not None:
            out += self._close(self._block)
        return out

    def abandon(self) -> list[Sent]:
        """Close what is open and forget what is held: the answer failed."""
        self._held.clear()
        return self.finish()

    def _send(self, block: _Block) -> list[Sent]:
        out: list[Sent] = []
        if block.index is None:
            # Engines put blank lines between reasoning and calls, which would be in the history for ever.
            if not (block.name if block.kind == "tool_use" else block.unsent.strip()):
                return []
            block.index = self._opened
            self._opened += 1
            self.called = self.called or block.kind == "tool_use"
            call_id = block.id or f"toolu_{self._message_id.removeprefix('msg_')}{block.call}"
            out.append(block_start(block.index, block.kind, call_id, block.name))
        if block.unsent:
            out.append(block_delta(block.index, block.kind, block.unsent))
            block.unsent = ""
        return out

    def _close(self, block: _Block) -> list[Sent]:
        held, self._held, self._block = self._held, [], None
        if block.call is not None:
            self._ended.add(block.call)
        out = [] if block.index is None else block_stop(block.index, block.kind, self._message_id)
        for part in held:
            out += self.take(part)
        return out
