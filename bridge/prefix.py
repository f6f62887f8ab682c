"""Where a conversation's prompt leaves its last turn's: there the engine's prefix cache ends. Pure."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec

MAX_BYTES = 64 * 1024 * 1024  # of prompts that are kept; the longest unused are forgotten first
_ORDER = ("system", "tools", "messages")  # as templates render them
AROUND = 40  # bytes of an excerpt on each side
_lines = msgspec.json.Encoder().encode_lines


class Prefixes:
    """The last prompt of each conversation, as JSON lines: a prompt that grew has the one before as its prefix."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[tuple[str, str], bytes] = {}

    # None while the prompt in `request` only grows, and for a first turn.
    def take(self, conversation: tuple[str, str], request: Mapping[str, Any]) -> str | None:
        parts = [part if isinstance(part := request.get(name), list) else [part] for name in _ORDER]
        was, now = self._kept.pop(conversation, b""), _lines(chain(*parts))
        self._kept[conversation] = now
        surplus = sum(map(len, self._kept.values())) - self._max_bytes
        while surplus > 0:
            surplus -= len(self._kept.pop(next(iter(self._kept))))
        at = _common(was, now)
        if at == min(len(was), len(now)):
            return None
        line = now.count(b"\n", 0, at)
        return f"at byte {at} of {len(was)}, in part {line}: {_around(was, at)!r} became {_around(now, at)!r}"


# Halving: each step compares at C speed what is not known to be equal yet, so all of them read the text twice at most.
def _common(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _around(text: bytes, at: int) -> str:
    return text[max(0, at - AROUND) : at + AROUND].decode("utf-8", "replace")
