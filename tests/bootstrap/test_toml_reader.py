"""One value at a time, the tables that a reader reads, and the line of a key in any of TOML's spellings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap import toml_reader as toml
from bootstrap.toml_reader import Reader, SpecError, line_of

SIZE = {"is": "whole", "least": 1, "required": True}
LABEL = {"is": "text", "default": "none"}
THING = {"size": SIZE, "label": LABEL}
READER = Reader("[thing]\nsize = 1\n")


def test_a_section_becomes_its_keys_with_their_defaults() -> None:
    assert READER.fields(THING, ("thing",), {"size": 1}) == {"size": 1, "label": "none"}


def test_sections_nest_and_are_equal_by_value_and_frozen() -> None:
    table = {"best": {"size": 1}, "named": {"a": {"size": 2}, "b": {"size": 3, "label": "x"}}}
    schema = {"best": THING, "named": {"*": THING}}
    read, again = READER.fields(schema, (), table), READER.fields(schema, (), table)
    assert read == again
    assert (read["best"].size, read["named"]["b"].label) == (1, "x")
    with pytest.raises(AttributeError):
        read["best"].size = 2


def test_what_is_required_is_asked_for() -> None:
    with pytest.raises(SpecError, match=r'line 1: \[thing\] needs "size"'):
        Reader("[thing]\nlabel = 'x'\n").fields(THING, ("thing",), {"label": "x"})


def test_an_error_without_a_line_or_a_neighbour_says_neither() -> None:
    assert str(SpecError("no")) == "pod.toml: no (docs/config.md)"
    assert str(SpecError("no", 3, "k", "key")) == 'pod.toml line 3: no; did you mean "key"? (docs/config.md)'


def test_an_error_of_a_variable_names_it_instead_of_a_line() -> None:
    error = Reader("size = 0\n", {("size",): "VL_SIZE"}).error("no", ("size",))
    assert (str(error), error.line) == ("pod.toml: the variable VL_SIZE: no (docs/config.md)", None)


def row(kind: str, **more: Any) -> dict[str, Any]:
    return {**toml.KINDS[kind], "is": kind, **more}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (row("text"), "a b"),
        (row("whole"), 0),
        (row("whole"), 16_106_127_360),
        (row("number", most=1), 1),
        (row("texts"), []),
        (row("names"), ["a", "a[1m]"]),
        (row("aliases"), []),
        (row("args"), ["--moe-backend", "marlin", "--hostile", "--portable"]),
        (row("env"), {"A": "", "B": "two\nlines"}),
        (row("pairs"), {"method": "ngram", "n": 3}),
        (row("patches"), {"config-ignore": ["a"], "transformers": "5.16.1"}),
        (row("routes"), True),
        (row("routes"), {"a": "b"}),
        (row("store"), "dir:///logs"),
        (row("store"), "hf://datasets/owner/name/path"),
        (row("digest"), "0" * 64),
    ],
)
def test_taken(kind: dict[str, Any], value: Any) -> None:
    assert toml.wrong(value, kind) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (row("text"), " "),
        (row("text"), "a\nb"),
        (row("text"), "\x1b[2J"),
        (row("flag"), 1),
        (row("whole", least=1), 0),
        (row("whole"), True),
        (row("whole"), 1.0),
        (row("number", most=1), 0),
        (row("number", most=1), 1.01),
        (row("number"), float("inf")),
        (row("number"), float("nan")),
        (row("number"), True),
        (row("choice", options=["a", "b"]), ["a"]),
        (row("choice", options=["a", "b"]), "c"),
        (row("texts"), "a"),
        (row("texts"), [1]),
        (row("names"), []),
        (row("names"), ["a", "a"]),
        (row("names"), ["a b"]),
        (row("names"), ["--host"]),
        (row("args"), ["--api-key", "x"]),
        (row("args"), ["--served_model_name=x"]),
        (row("env"), {"1A": "x"}),
        (row("env"), {"PASSERELLE_X": "x"}),
        (row("env"), {"A": "\0"}),
        (row("env"), {"A": 1}),
        (row("pairs"), {}),
        (row("pairs"), {"a": {}}),
        (row("patches"), {"other": "x"}),
        (row("routes"), {"a": 1}),
        (row("store"), "hf://"),
        (row("store"), "dir://relative"),
        (row("digest"), "xyz"),
    ],
)
def test_refused(kind: dict[str, Any], value: Any) -> None:
    says = toml.wrong(value, kind)
    assert says is not None
    assert says.startswith("must ")
    assert "{" not in says


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.sampled_from(sorted(toml.KINDS)), values)
def test_any_value_of_any_kind_is_taken_or_refused(kind: str, value: Any) -> None:
    says = toml.wrong(value, row(kind))
    assert says is None or says.startswith("must ")


@given(st.sampled_from(sorted(toml.KINDS)), st.text())
def test_any_word_is_read_or_refused(kind: str, text: str) -> None:
    says = toml.wrong(toml.word(text, row(kind)), row(kind))
    assert says is None or says.startswith("must ")


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
