"""Reads checked values out of a TOML document, and turns whatever is wrong into a SpecError with its line. Pure."""

import difflib
import re
import tomllib
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from bootstrap.errors import Usage

Scalar = str | int | float | bool
# Engine flags that would cut the bridge off from the engine, or the engine from its names.
OWNED_FLAGS = ("--api-key", "--host", "--port", "--served-model-name", "--uds")


class SpecError(Usage):
    """pod.toml cannot be used. `line` counts from 1; None when the fault is something that is missing."""

    def __init__(self, message: str, line: int | None = None, key: str | None = None, nearest: str | None = None):
        where = "pod.toml" if line is None else f"pod.toml line {line}"
        hint = f'; did you mean "{nearest}"?' if nearest else ""
        super().__init__(f"{where}: {message}{hint} (docs/config.md)")
        self.line, self.key, self.nearest = line, key, nearest


@dataclass(frozen=True, slots=True)
class Check:
    """What one value may be. `wants` follows the key's name in an error: "must be true or false"."""

    holds: Callable[[Any], bool]
    wants: str


def whole(least: int) -> Check:
    return Check(lambda value: type(value) is int and value >= least, f"must be a whole number >= {least}")


def number(above: float, most: float = 1e9) -> Check:
    """More than `above`, at most `most`; nan and inf are refused."""
    wants = f"must be a number > {above:g}" + (f" and <= {most:g}" if most < 1e9 else "")
    return Check(lambda value: type(value) in (int, float) and above < value <= most, wants)


def one_of(*options: str) -> Check:
    return Check(lambda value: value in options, "must be one of " + ", ".join(f'"{option}"' for option in options))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value.strip())


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_names(value: Any) -> bool:
    spoiled = any(name.startswith("-") or " " in name for name in value) if _is_texts(value) else True
    return not spoiled and 0 < len(value) == len(set(value))


def _is_args(value: Any) -> bool:
    return _is_texts(value) and not any(arg.split("=")[0].replace("_", "-") in OWNED_FLAGS for arg in value)


def _is_env(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(text, str) and "\0" not in text and re.fullmatch(r"(?!PASSERELLE_)[A-Za-z_][A-Za-z0-9_]*", name)
        for name, text in value.items()
    )


def _is_pairs(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(item, Scalar) for item in value.values())


def _is_mirror(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"(hf|dir)://\S+", value))


TEXT = Check(_is_text, "must be a non-empty text on one line")
FLAG = Check(lambda value: isinstance(value, bool), "must be true or false")
TEXTS = Check(_is_texts, "must be a list of texts")
NAMES = Check(_is_names, "must be a list of one or more different names, without spaces or a leading dash")
ARGS = Check(_is_args, f"must be a list of texts without {', '.join(OWNED_FLAGS)}, which bootstrap sets itself")
ENV = Check(_is_env, "must be a table of texts, named like environment variables and not PASSERELLE_… like ours")
PAIRS = Check(_is_pairs, "must be a table of texts, numbers, true or false")
MIRROR = Check(_is_mirror, 'must be "hf://…" or "dir://…"')


class Reader:
    """Fields of a section: sub-sections, mappings of any names to sub-sections, and keys annotated with their Check."""

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, message: str, path: tuple[str, ...], nearest: str | None = None) -> SpecError:
        return SpecError(message, line_of(self._text, path), path[-1] if path else None, nearest)

    def section(self, kind: Any, path: tuple[str, ...], table: Any) -> Any:
        """One section as the named tuple that is its schema, sub-sections included."""
        hints = typing.get_type_hints(kind, include_extras=True)
        self._refuse_unknown(self._table(path, table), path, list(hints))
        values: dict[str, Any] = {}
        for name, hint in hints.items():
            below = (*path, name)
            if isinstance(hint, type):
                values[name] = self.section(hint, below, table.get(name, {}))
            elif typing.get_origin(hint) is not Annotated:
                many = self._table(below, table.get(name, {})).items()
                values[name] = {key: self.section(typing.get_args(hint)[1], (*below, key), own) for key, own in many}
            elif name in table:
                values[name] = self._value(table[name], below, hint.__metadata__[0])
            elif name not in kind._field_defaults:
                raise self.error(f'[{".".join(path)}] needs "{name}"', path)
        return kind(**values)

    def _table(self, path: tuple[str, ...], value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(f'"{path[-1]}" must be a table', path)
        return value

    def _refuse_unknown(self, table: dict[str, Any], path: tuple[str, ...], known: list[str]) -> None:
        for key in [key for key in table if key not in known]:
            near = difflib.get_close_matches(key, known, n=1)
            what = "section" if isinstance(table[key], dict) else "key" if path else "section or key"
            raise self.error(f'unknown {what} "{key}"{_within(path)}', (*path, key), near[0] if near else None)

    def _value(self, value: Any, path: tuple[str, ...], check: Check) -> Any:
        if not check.holds(value):
            raise self.error(f'"{path[-1]}"{_within(path[:-1])} {check.wants}', path)
        if isinstance(value, dict):
            return tuple(value.items())
        return tuple(value) if isinstance(value, list) else value


def _within(path: tuple[str, ...]) -> str:
    return f" in [{'.'.join(path)}]" if path else ""


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line (from 1) where `path` is written; else that of the nearest table around it; else None."""
    # tomllib does not tell. But a key is there as soon as the lines up to the end of its statement are read, and that
    # statement begins after the last line up to which the text was TOML before. For messages: the time is quadratic.
    lines = text.replace("\r\n", "\n").split("\n")
    begin, found, deepest = 1, None, 0
    for end in range(1, len(lines) + 1):
        try:
            depth = _depth(tomllib.loads("\n".join(lines[:end])), path)
        except tomllib.TOMLDecodeError:
            continue
        if depth > deepest:
            found, deepest = begin, depth
        begin = end + 1
    return found


def _depth(table: Any, path: tuple[str, ...]) -> int:
    known = bool(path) and isinstance(table, dict) and path[0] in table
    return 1 + _depth(table[path[0]], path[1:]) if known else 0
