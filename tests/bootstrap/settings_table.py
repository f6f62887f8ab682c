"""How docs/config.md shows settings.toml: one table a section."""

from __future__ import annotations

import json
from typing import Any

from bootstrap.spec import ROWS

HEAD = "| key | type | default | meaning | engine | variable | restarts |\n|---|---|---|---|---|---|---|"


def sections() -> list[str]:
    return list(dict.fromkeys(section_of(path) for path in ROWS))


def section_of(path: tuple[str, ...]) -> str:
    return ".".join("<key>" if part == "*" else part for part in path[:-1])


def table(section: str) -> str:
    rows = [line(path, row) for path, row in ROWS.items() if section_of(path) == section]
    return "\n".join([HEAD, *rows])


def line(path: tuple[str, ...], row: Any) -> str:
    variable = f"`{row['variable']}`" if "variable" in row else ""
    restarts = "" if row["restarts"] == "nothing" else row["restarts"]
    cells = [f"`{path[-1]}`", kind(row), default(path, row), row["says"], engine(row), variable, restarts]
    return f"| {' | '.join(cells)} |"


def kind(row: Any) -> str:
    options = ", ".join(f'`"{option}"`' for option in row.get("options", ()))
    most = f", ≤ {row['most']}" if row.get("most", 1e9) < 1e9 else ""
    return str(row["shown"]).format(**{**row, "options": options}) + most


def default(path: tuple[str, ...], row: Any) -> str:
    if row.get("required"):
        return "required"
    if "default" in row:
        return f"`{json.dumps(row['default'])}`"
    return "vLLM's" if {"flag", "env", "draft"} & set(row) else "none"


def engine(row: Any) -> str:
    if "env" in row:
        return f"`{row['env']}`"
    if "draft" in row:
        return f"`{row['draft']}` in `--speculative-config`"
    if "flag" not in row:
        return ""
    name = row["flag"][0] if isinstance(row["flag"], list) else row["flag"]
    switch = "[no-]" if row["is"] == "flag" else ""
    return f"`--{row['with']} --{name}`" if "with" in row else f"`--{switch}{name}`"
