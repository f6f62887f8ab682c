"""Reads checked values out of a TOML document, and turns whatever is wrong into a SpecError with its line. Pure."""

# The schema is a tree of rows (settings.toml), each of a kind (kinds.toml); both files say what their keys mean.

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import make_dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from bootstrap.errors import Usage

Path = tuple[str, ...]
Row = Mapping[str, Any]

_TYPES = {"text": (str,), "flag": (bool,), "whole": (int,), "number": (int, float), "list": (list,), "table": (dict,)}
_FLAGS = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
_AS_WORD: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "flag": lambda word: _FLAGS[word.lower()],
    "whole": int,
    "number": float,
    "list": lambda word: re.split(r"[\s,]+", word.strip()),
    "table": lambda word: dict(pair.split(":", 1) for pair in re.split(r"[\s,]+", word.strip())),
}
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_frozen = cache(lambda names: make_dataclass("Section", names, frozen=True, slots=True))


class SpecError(Usage):
    """pod.toml cannot be used. `line` counts from 1; None for what is missing, or what a variable says."""

    def __init__(self, message: str, line: int | None = None, key: str | None = None, nearest: str | None = None):
        where = "pod.toml" if line is None else f"pod.toml line {line}"
        hint = f'; did you mean "{nearest}"?' if nearest else ""
        super().__init__(f"{where}: {message}{hint} (docs/config.md)")
        self.line, self.key, self.nearest = line, key, nearest


def beside(name: str) -> str:
    """A file that lies beside the code; also inside a zipapp."""
    return files("bootstrap").joinpath(name).read_text("utf-8")


def data(name: str) -> dict[str, Any]:
    return tomllib.loads(beside(name))


KINDS = data("kinds.toml")


def rows(tree: Row, path: Path = ()) -> Iterator[tuple[Path, Row]]:
    """Every setting of a schema, with the kind's own entries filled in."""
    for name, row in tree.items():
        yield from [((*path, name), KINDS[row["is"]] | row)] if "is" in row else rows(row, (*path, name))


def document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _TOML_PLACE.search(str(error))
        line = int(at[1]) if at and at[1] else max(1, len(text.splitlines()))
        raise SpecError(f"not TOML: {_TOML_PLACE.sub('', str(error))}", line) from error
    except (ValueError, RecursionError) as error:
        raise SpecError("not TOML: a number of thousands of digits, or thousands of nested brackets") from error


def word(text: str, row: Row) -> Any:
    """A variable's text as TOML would say it; left as it is where it cannot be, for `wrong` to refuse."""
    if text in row.get("words", {}):
        return row["words"][text]
    for kind in row["type"].split("/"):
        try:
            return _AS_WORD[kind](text)
        except (ValueError, KeyError):
            continue
    return text


def wrong(value: Any, row: Row) -> str | None:
    """What a value must be and is not, to follow the key's name; None when nothing is wrong."""
    if _is_one_of(row["type"], value) and _fits(value, row):
        return None
    return str(row["wants"]).format_map({**row, "options": ", ".join(f'"{each}"' for each in row.get("options", ()))})


def _is_one_of(names: str, value: Any) -> bool:
    return any(type(value) in _TYPES[name] for name in names.split("/"))


def _fits(value: Any, row: Row) -> bool:
    size = value if isinstance(value, int | float) else len(value)
    parts = [value] if isinstance(value, str) else value if isinstance(value, list | dict) else []
    values = value.values() if isinstance(value, dict) else []
    return (
        row.get("above", -math.inf) < size <= row.get("most", math.inf)
        and row.get("least", 0) <= size
        and all(isinstance(part, str) and part.isprintable() and part.strip() for part in parts)
        and all(re.fullmatch(row.get("pattern", ".+"), part) for part in parts)
        and all(_is_one_of(row["values"], each) and "\0" not in str(each) for each in values)
        and value in row.get("options", [value])
        and not ("unique" in row and len(set(value)) < len(value))
    )


class Reader:
    """One document read by a schema. `variables`: which variable overrode which setting."""

    def __init__(self, text: str, variables: Mapping[Path, str] | None = None) -> None:
        self._text, self._variables = text, variables or {}

    def error(self, message: str, path: Path, nearest: str | None = None) -> SpecError:
        if path in self._variables:
            return SpecError(f"the variable {self._variables[path]}: {message}", None, path[-1], nearest)
        return SpecError(message, line_of(self._text, path), path[-1], nearest)

    def fields(self, schema: Row, path: Path, table: Any) -> dict[str, Any]:
        """One section by the names of its keys; sub-sections are frozen objects with an attribute per key."""
        within = f" in [{'.'.join(path)}]" if path else ""
        for key in [key for key in self._table(path, table) if key not in schema]:
            what = "section" if isinstance(table[key], dict) else "key" if path else "section or key"
            raise self.error(f'unknown {what} "{key}"{within}', (*path, key), nearest(key, schema))
        return {name: self._field(row, (*path, name), table, within) for name, row in schema.items()}

    def _field(self, row: Row, path: Path, table: dict[str, Any], within: str) -> Any:
        name = path[-1]
        if "*" in row:
            many = self._table(path, table.get(name, {}))
            return {key: self._field(row["*"], (*path, key), many, "") for key in many}
        if "is" not in row:
            return _frozen(tuple(row))(**self.fields(row, path, table.get(name, {})))
        if name not in table and row.get("required"):
            raise self.error(f'[{".".join(path[:-1])}] needs "{name}"', path)
        value = table.get(name, row.get("default"))
        if name in table and (says := wrong(value, KINDS[row["is"]] | row)):
            raise self.error(f'"{name}"{within} {says}', path)
        return tuple(value.items()) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value

    def _table(self, path: Path, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(f'"{path[-1]}" must be a table', path)
        return value


def nearest(key: str, known: Mapping[str, Any]) -> str | None:
    return next(iter(difflib.get_close_matches(key, known, n=1)), None)


def line_of(text: str, path: Path) -> int | None:
    """The line (from 1) where `path` is written; else that of the nearest table around it; else None."""
    # tomllib does not tell. But a key is there as soon as the lines up to the end of its statement are read, and that
    # statement begins after the last line up to which the text was TOML before. For messages: the time is quadratic.
    lines = text.replace("\r\n", "\n").split("\n")
    begin, found, deepest = 1, None, 0
    for end in range(1, len(lines) + 1):
        try:
            table, depth = tomllib.loads("\n".join(lines[:end])), 0
        except tomllib.TOMLDecodeError:
            continue
        while depth < len(path) and isinstance(table, dict) and path[depth] in table:
            table, depth = table[path[depth]], depth + 1
        if depth > deepest:
            found, deepest = begin, depth
        begin = end + 1
    return found
