"""The status line of Claude Code: its session as JSON on stdin -> one line with the model and the window's true fill.

The shape is that of Claude Code 2.1.332, recorded in tests/data/claude-code-statusline.jsonl: `context_window` has
`context_window_size`, and `current_usage` (null before the first answer) with the last request's tokens by kind. Pure.
"""

from __future__ import annotations

import msgspec

BAR = 10
FULL, EMPTY, UNKNOWN = "▓", "░", "–"

COMPACT_AT = 0.8
"""Claude Code compacts a conversation by itself a little under the window; from here on it may do so any moment."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens of the last request."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0

    def total(self) -> int:
        parts = (self.input_tokens, self.output_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens)
        return sum(part or 0 for part in parts)


class Window(msgspec.Struct, frozen=True):
    context_window_size: int | None = None
    current_usage: Usage | None = None


class Model(msgspec.Struct, frozen=True):
    id: str | None = None


class Session(msgspec.Struct, frozen=True):
    """What we read of it; everything else is ignored, and every part may be missing."""

    model: Model | None = None
    context_window: Window | None = None


def line(stdin: bytes, pod_window: int | None) -> str:
    """One line, never empty: Claude Code shows nothing at all for an empty one.

    `pod_window` is what `passerelle connect` told Claude Code (CLAUDE_CODE_MAX_CONTEXT_TOKENS). Without it Claude Code
    takes a model that it does not know for one of a million tokens, so its own figure is then marked as a guess.
    """
    try:
        session = msgspec.json.decode(stdin, type=Session)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"passerelle {UNKNOWN} no session on stdin"
    name = _plain((session.model and session.model.id) or UNKNOWN)
    window = session.context_window or Window()
    size = pod_window or window.context_window_size
    guess = "" if pod_window else " (guess)"
    if not size or size < 0:
        return f"{name}  window {UNKNOWN}"
    if window.current_usage is None:
        return f"{name}  window {tokens(size)}{guess}"
    used = max(0, window.current_usage.total())
    share = used / size
    soon = "  compacts soon" if share >= COMPACT_AT else ""
    return f"{name}  {_bar(share)} {tokens(used)} of {tokens(size)}{guess}  {share:.0%}{soon}"


def tokens(count: int) -> str:
    """13573 -> "13.6k", 262144 -> "262k", 1048576 -> "1.05M"."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.2f}M"


def _bar(share: float) -> str:
    full = min(BAR, round(share * BAR))
    return FULL * full + EMPTY * (BAR - full)


def _plain(text: str) -> str:
    """A model's name is the pod's word: no control character of it reaches the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)[:60]
