"""Reads checked values out of a TOML document, and turns whatever is wrong into a SpecError with its line. Pure."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from bootstrap.checks import Check
from bootstrap.toml_lines import line_of


class SpecError(ValueError):
    """pod.toml cannot be used. `line` counts from 1; None when the fault is something that is missing."""

    def __init__(self, message: str, line: int | None = None, key: str | None = None, nearest: str | None = None):
        where = "pod.toml" if line is None else f"pod.toml line {line}"
        hint = f'; did you mean "{nearest}"?' if nearest else ""
        super().__init__(f"{where}: {message}{hint} (docs/config.md)")
        self.message, self.line, self.key, self.nearest = message, line, key, nearest


def schema(kind: type) -> Iterator[tuple[str, bool, type | Check, bool]]:
    """(name, required, what, many) of each field: `what` is the dataclass of a sub-section, else the check of a key.

    Many: a mapping of names of the file's choice to sub-sections.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    for item in dataclasses.fields(kind):
        hint = hints[item.name]
        required = item.default is dataclasses.MISSING
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield item.name, False, hint, False
        elif typing.get_origin(hint) is Annotated:
            yield item.name, required, hint.__metadata__[0], False
        else:
            yield item.name, False, typing.get_args(hint)[1], True


class Reader:
    """Reads checked values out of one document, and knows its text for the line of an error."""

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, message: str, path: tuple[str, ...], nearest: str | None = None) -> SpecError:
        return SpecError(message, line_of(self._text, path), path[-1] if path else None, nearest)

    def table(self, path: tuple[str, ...], parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """The table `key` of `parent`, empty when absent."""
        value = parent.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f'"{key}" must be a table', (*path, key))
        return value

    def value(self, path: tuple[str, ...], key: str, value: Any, check: Check) -> Any:
        try:
            return check(value)
        except ValueError as error:
            where = f" in [{'.'.join(path)}]" if path else ""
            raise self.error(f'"{key}"{where} {error}', (*path, key)) from error

    def refuse_unknown(self, path: tuple[str, ...], table: Mapping[str, Any], known: list[str]) -> None:
        for key, value in table.items():
            if key in known:
                continue
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
            kind, where = ("key", f" in [{'.'.join(path)}]") if path else ("section or key", "")
            if not path and isinstance(value, dict):
                kind = "section"
            raise self.error(f'unknown {kind} "{key}"{where}', (*path, key), near[0] if near else None)

    def section(self, kind: type, path: tuple[str, ...], table: Mapping[str, Any]) -> Any:
        """One section as the dataclass that is its schema, sub-sections included."""
        fields = list(schema(kind))
        self.refuse_unknown(path, table, [name for name, *_ in fields])
        values: dict[str, Any] = {}
        for name, required, what, many in fields:
            below = (*path, name)
            if isinstance(what, type):
                own = self.table(path, table, name)
                values[name] = (
                    {each: self.section(what, (*below, each), self.table(below, own, each)) for each in own}
                    if many
                    else self.section(what, below, own)
                )
            elif name in table:
                values[name] = self.value(path, name, table[name], what)
            elif required:
                raise self.error(f'[{".".join(path)}] needs "{name}"', path)
        return kind(**values)
