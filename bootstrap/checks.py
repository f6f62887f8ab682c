"""What one value of pod.toml may be: each check returns our value, or raises ValueError with what was wanted. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Scalar = str | int | float | bool
Pairs = tuple[tuple[str, Scalar], ...]
Check = Callable[[Any], Any]
"""TOML value -> our value. The message of its ValueError follows the key's name: "must be true or false"."""

OWNED_FLAGS = frozenset({"--host", "--port", "--uds", "--api-key", "--served-model-name"})
"""Engine flags that would cut the bridge off from the engine, or the engine from its names."""


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("must be a non-empty text on one line")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def whole(least: int) -> Check:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"must be a whole number >= {least}")
        return value

    return check


def number(above: float, most: float = 1e9) -> Check:
    """More than `above`, at most `most`; nan and inf are refused."""

    def check(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not above < value <= most:
            raise ValueError(f"must be a number > {above:g}" + (f" and <= {most:g}" if most < 1e9 else ""))
        return float(value)

    return check


def one_of(*options: str) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in options:
            raise ValueError("must be one of " + ", ".join(f'"{option}"' for option in options))
        return value

    return check


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of texts")
    return tuple(text(item) for item in value)


def names(value: Any) -> tuple[str, ...]:
    found = texts(value)
    if not found or len(set(found)) < len(found) or any(name.startswith("-") or " " in name for name in found):
        raise ValueError("must be a list of one or more different names, without spaces or a leading dash")
    return found


def args(value: Any) -> tuple[str, ...]:
    found = texts(value)
    for arg in found:
        name = arg.split("=")[0]
        if name.replace("_", "-") in OWNED_FLAGS:
            raise ValueError(f"must not hold {name}, which bootstrap sets itself")
    return found


def env(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(isinstance(item, str) and "\0" not in item for item in value.values()):
        raise ValueError("must be a table of texts")
    for name in value:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.startswith("PASSERELLE_"):
            raise ValueError(f'must not set "{name}": not the name of an environment variable, or one of ours')
    return tuple(value.items())


def pairs(value: Any) -> Pairs:
    if not isinstance(value, dict) or not value or not all(isinstance(item, Scalar) for item in value.values()):
        raise ValueError("must be a table of texts, numbers, true or false")
    return tuple(value.items())


def mirror(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"(hf|dir)://\S+", value):
        raise ValueError('must be "hf://…" or "dir://…"')
    return value
