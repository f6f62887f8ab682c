"""One value at a time, the tables that a reader reads, and the line of a key in any of TOML's spellings."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import pytest

from bootstrap import toml_reader as toml
from bootstrap.toml_reader import Check, Reader, SpecError, line_of


class Thing(NamedTuple):
    size: Annotated[int, toml.whole(1)]
    label: Annotated[str, toml.TEXT] = "none"


class Things(NamedTuple):
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


def one(check: Check) -> type:
    """A section of one key."""

    class One(NamedTuple):
        value: object

    One.__annotations__["value"] = Annotated[object, check]
    return One


@pytest.mark.parametrize(
    ("check", "value", "ours"),
    [
        (toml.TEXT, "a b", "a b"),
        (toml.whole(0), 0, 0),
        (toml.number(0, 1), 1, 1.0),
        (toml.TEXTS, [], ()),
        (toml.NAMES, ["a", "a[1m]"], ("a", "a[1m]")),
        (toml.ARGS, ["--moe-backend", "marlin"], ("--moe-backend", "marlin")),
        (toml.ENV, {"A": ""}, (("A", ""),)),
        (toml.PAIRS, {"method": "ngram", "n": 3}, (("method", "ngram"), ("n", 3))),
        (toml.MIRROR, "dir:///logs", "dir:///logs"),
    ],
)
def test_taken(check: Check, value: Any, ours: Any) -> None:
    assert Reader("").section(one(check), (), {"value": value}).value == ours


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (toml.TEXT, " "),
        (toml.TEXT, "a\nb"),
        (toml.TEXT, "\x1b[2J"),
        (toml.FLAG, 1),
        (toml.whole(1), 0),
        (toml.whole(1), True),
        (toml.whole(1), 1.0),
        (toml.number(0, 1), 0),
        (toml.number(0, 1), 1.01),
        (toml.number(0), float("inf")),
        (toml.number(0), True),
        (toml.one_of("a", "b"), ["a"]),
        (toml.TEXTS, "a"),
        (toml.NAMES, ["a", "a"]),
        (toml.NAMES, ["a b"]),
        (toml.NAMES, ["--host"]),
        (toml.ARGS, ["--api-key", "x"]),
        (toml.ENV, {"1A": "x"}),
        (toml.ENV, {"PASSERELLE_X": "x"}),
        (toml.ENV, {"A": "\0"}),
        (toml.PAIRS, {}),
        (toml.PAIRS, {"a": {}}),
        (toml.MIRROR, "hf://"),
    ],
)
def test_refused(check: Check, value: Any) -> None:
    with pytest.raises(SpecError, match='"value" must '):
        Reader("").section(one(check), (), {"value": value})


TEXT = '''serial = 1
[serve]
# model = "no"
model = "a"   # [idle]
note = """
model = "not this"
[bridge]
"""
env = { A = "1", B = "2" }

args = [
  "--x=1",
  "model",
]
[models."qwen3.5-coder"]
repo = 'x'
[ bridge . effort ]
"low" = 1
log.mirror = "x"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("serial",), 1),
        (("serve",), 2),
        (("serve", "model"), 4),
        (("serve", "note"), 5),
        (("serve", "env", "B"), 9),
        (("serve", "args"), 11),
        (("serve", "missing"), 2),
        (("models",), 15),
        (("models", "qwen3.5-coder", "repo"), 16),
        (("bridge",), 17),
        (("bridge", "effort", "low"), 18),
        (("bridge", "effort", "log", "mirror"), 19),
        (("idle", "stop_after_minutes"), None),
    ],
)
def test_line_of(path: tuple[str, ...], line: int | None) -> None:
    assert line_of(TEXT, path) == line


def test_line_of_in_a_file_of_windows() -> None:
    assert line_of(TEXT.replace("\n", "\r\n"), ("serve", "args")) == 11
