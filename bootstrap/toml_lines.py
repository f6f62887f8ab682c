"""The line of a key in a TOML text, which tomllib does not give: for messages only. Pure; the text is valid TOML."""

from __future__ import annotations

import re

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line (from 1) where `path` is written; else that of the nearest table around it; else None.

    A key inside an inline table is found on the line of the table.
    """
    best: tuple[int, int] | None = None
    for number, where in _written(text):
        if where[: len(path)] == path:
            return number
        if path[: len(where)] == where and (best is None or len(where) > best[0]):
            best = (len(where), number)
    return best[1] if best else None


def _written(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Every (line, whole path) of a table's header or a key. Lines inside a multi-line string are passed over."""
    found: list[tuple[int, tuple[str, ...]]] = []
    table: tuple[str, ...] = ()
    fence: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if fence is None:
            if header := _HEADER.match(line):
                table = _parts(header[1])
                found.append((number, table))
            elif key := _KEY.match(line):
                found.append((number, table + _parts(key[1])))
        fence = _fence_after(line, fence)
    return found


def _fence_after(line: str, fence: str | None) -> str | None:
    """The quotes of the multi-line string that is open at the end of the line, given the one open at its start."""
    for quotes in re.findall(r'"""|\'\'\'', line):
        if fence is None:
            fence = quotes
        elif fence == quotes:
            fence = None
    return fence


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
