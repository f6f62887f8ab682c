"""The error that a reader makes, and the tables that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest

from bootstrap import checks
from bootstrap.toml_reader import Reader, SpecError


@dataclass(frozen=True)
class Thing:
    size: Annotated[int, checks.whole(1)]
    label: Annotated[str, checks.text] = "none"


@dataclass(frozen=True)
class Things:
    best: Thing
    named: dict[str, Thing]


READER = Reader("[thing]\nsize = 1\n")


def test_a_section_becomes_its_dataclass_with_its_defaults() -> None:
    assert READER.section(Thing, ("thing",), {"size": 1}) == Thing(1)


def test_sections_nest() -> None:
    table = {"best": {"size": 1}, "named": {"a": {"size": 2}, "b": {"size": 3, "label": "x"}}}
    assert READER.section(Things, (), table) == Things(Thing(1), {"a": Thing(2), "b": Thing(3, "x")})


def test_what_is_required_is_asked_for() -> None:
    with pytest.raises(SpecError, match=r'line 1: \[thing\] needs "size"'):
        READER.section(Thing, ("thing",), {"label": "x"})


def test_an_error_without_a_line_or_a_neighbour_says_neither() -> None:
    assert str(SpecError("no")) == "pod.toml: no (docs/config.md)"
    assert str(SpecError("no", 3, "k", "key")) == 'pod.toml line 3: no; did you mean "key"? (docs/config.md)'
