"""Numbers, ages, money, tokens and untrusted text -> short strings for a fixed column. Pure.

Everywhere: None (not known) becomes UNKNOWN, never zero; the unit follows the figure; thousands are parted by a space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

UNKNOWN = "–"
STALE_S = 3.0
"""A figure older than this is shown with its age and dimmed: three polls were missed."""

_LEVELS = "▁▂▃▄▅▆▇█"
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_]?)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def count(value: float | None) -> str:
    """A whole number: 118 402."""
    return UNKNOWN if value is None else f"{round(value):,}".replace(",", " ")


def short(value: float | None) -> str:
    """A large number in three digits or so: 812, 495 k, 1.05 M."""
    if value is None:
        return UNKNOWN
    if value < 10_000:
        return count(value)
    if value < 999_500:
        return f"{value / 1e3:.0f} k"
    return f"{value / 1e6:.2f} M" if value < 99.95e6 else f"{value / 1e6:.0f} M"


def decimal(value: float | None, digits: int = 1) -> str:
    """A number with a fixed count of decimals, so that a column of them lines up: 27.1."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}".replace(",", " ")


def percent(share: float | None) -> str:
    """A share of 1: 66 %. Never 100 % before it is whole, nor 0 % once it has begun."""
    if share is None:
        return UNKNOWN
    value = round(share * 100)
    if value == 100 and share < 1:
        value = 99
    elif value == 0 and share > 0:
        value = 1
    return f"{value} %"


def dollars(value: float | None, digits: int = 2) -> str:
    """US dollars: 3.78 $."""
    return UNKNOWN if value is None else f"{decimal(value, digits)} $"


def per(value: float | None, unit: str) -> str:
    """US dollars per something: 0.74 $/h."""
    return UNKNOWN if value is None else f"{decimal(value, 2)} $/{unit}"


def latency(seconds: float | None) -> str:
    """A wait, with two figures: 34 ms, 0.40 s, 2.1 s, 31 s."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 9.95 else age(seconds)


def age(seconds: float | None) -> str:
    """How long ago, in its largest unit: 4 s, 12 m, 3 h, 2 d. A clock that runs behind gives 0 s."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 100:
        return f"{whole} s"
    if whole < 100 * 60:
        return f"{whole // 60} m"
    return f"{whole // 3600} h" if whole < 100 * 3600 else f"{whole // 86400} d"


def tight_age(seconds: float | None) -> str:
    """An age in three cells, without the space: 4s, 12m, 3h."""
    return age(seconds).replace(" ", "")


def duration(seconds: float | None) -> str:
    """A span in its two largest units: 45 s, 14 m 05 s, 2 h 14 m, 3 d 4 h."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def gib(mib: float | None) -> str:
    """Mebibytes as a number of GiB, without the unit: 131."""
    return UNKNOWN if mib is None else f"{mib / 1024:.0f}"


def clock(at: float, zone: tzinfo | None = None) -> str:
    """Unix seconds as the time of day, in `zone` or else this machine's: 13:46:02."""
    return datetime.fromtimestamp(at, tz=UTC).astimezone(zone).strftime("%H:%M:%S")


def printable(text: str) -> str:
    """Text of a pod or a client made harmless: no escape sequence, control or bidirectional mark is left."""
    return _CONTROL.sub(" ", _ESCAPE.sub("", text))


def clip(text: str, width: int) -> str:
    """At most `width` characters, the last one … when something was cut."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"[:width]


def sparkline(values: Sequence[float | None], top: float, rows: int = 1) -> tuple[str, ...]:
    """A bar per value on a scale of 0 to `top`, `rows` lines high, the highest line first.

    None is a gap (a blank), zero is the lowest bar: the two never look alike.
    """
    lines: list[list[str]] = [[] for _ in range(rows)]
    steps = rows * 8
    for value in values:
        level = 0 if value is None else _level(value, top, steps)
        for row in range(rows):
            filled = level - (rows - 1 - row) * 8
            lines[row].append(" " if filled <= 0 else _LEVELS[min(filled, 8) - 1])
    return tuple("".join(line) for line in lines)


def _level(value: float, top: float, steps: int) -> int:
    if top <= 0 or value <= 0:
        return 1
    return 1 + round(min(1.0, value / top) * (steps - 1))
