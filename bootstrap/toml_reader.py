"""Reads checked values out of a TOML document, and turns whatever is wrong into a SpecError with its line. Pure."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from bootstrap.checks import Check
from bootstrap.toml_lines import line_of


class SpecError(ValueError):
    """pod.toml cannot be used. `line` counts from 1; None when the fault is something that is missing."""

    def __init__(self, message: str, line: int | None = None, key: str | None = None, nearest: str | None = None):
        where = "pod.toml" if line is None else f"pod.toml line {line}"
        hint = f'; did you mean "{nearest}"?' if nearest else ""
        super().__init__(f"{where}: {message}{hint} (docs/config.md)")
        self.message, self.line, self.key, self.nearest = message, line, key, nearest


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

    def section(
        self,
        kind: type,
        path: tuple[str, ...],
        table: Mapping[str, Any],
        checks: Mapping[str, Check],
        parts: Mapping[str, Any],
    ) -> Any:
        self.refuse_unknown(path, table, [*checks, *parts])
        values = {key: self.value(path, key, value, checks[key]) for key, value in table.items() if key not in parts}
        values.update(parts)
        for item in dataclasses.fields(kind):
            required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
            if required and item.name not in values:
                raise self.error(f'[{".".join(path)}] needs "{item.name}"', path)
        return kind(**values)
