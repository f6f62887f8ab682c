"""What an engine says while it answers, in our words: the union that decode makes and blocks and Turn consume."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["thinking", "text", "tool_use"]
"""Of a content block, as Anthropic names it."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """A fragment of content. `call` numbers the tool calls of this answer; fragments of several may interleave."""

    kind: Kind
    text: str
    call: int | None = None
    id: str = ""
    name: str = ""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Cumulative counts. `prompt` includes `cached`; `cached` is None until the engine says (its last record)."""

    prompt: int
    cached: int | None
    output: int


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The engine's finish_reason, and the stop string that matched if one did."""

    reason: str
    stop: str | None


Event: TypeAlias = Part | Usage | Finish
