"""What an engine says while it answers, in our words: the union that decode makes and blocks and Turn consume."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridge.errors import BridgeError


class Thinking(msgspec.Struct, frozen=True, gc=False):
    text: str


class Text(msgspec.Struct, frozen=True, gc=False):
    text: str


class ToolPart(msgspec.Struct, frozen=True, gc=False):
    """A fragment of one call. `call` numbers the calls of this answer; fragments of several may interleave."""

    call: int
    id: str | None
    name: str | None
    arguments: str


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Cumulative counts. `prompt` includes `cached`; `cached` is None until the engine says (its last record)."""

    prompt: int
    cached: int | None
    output: int


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The engine's finish_reason, and the stop string that matched if one did."""

    reason: str
    stop: str | None


class Failed(msgspec.Struct, frozen=True):
    """An error object inside a 200 stream."""

    error: BridgeError


class Done(msgspec.Struct, frozen=True, gc=False):
    """`data: [DONE]`: nothing follows."""


Event: TypeAlias = Thinking | Text | ToolPart | Usage | Finish | Failed | Done
