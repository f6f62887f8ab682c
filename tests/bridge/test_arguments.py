from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.arguments import Arguments, parsed, unparsed


def sent(*fragments: str, complete: bool = True) -> str:
    arguments = Arguments()
    return "".join([*map(arguments.take, fragments), arguments.finish(complete)])


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("", {}),
        ("null", {}),
        ("{}", {}),
        (' {\n "a": 1} ', {"a": 1}),
        ('{"a": [1, {"b": "}]"}]', {"a": [1, {"b": "}]"}]}),
        ('{"a": 1}}', {"a": 1}),
        ('{"a": 1}{"a": 2}', {"a": 1}),
        ('{"a": "line\nnext\tend"}', {"a": "line\nnext\tend"}),
        ('{"a": "it\\\'s"}', {"a": "it's"}),
        ('{"re": "\\d+\\s"}', {"re": "\\d+\\s"}),
        ('{"a": "\\\n"}', {"a": "\\\n"}),
        ('{"a": "\\u00e9\\\\"}', {"a": "é\\"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("{'a': True, 'b': None, 'c': \"it's\"}", {"a": True, "b": None, "c": "it's"}),
    ],
)
def test_what_has_one_meaning_is_sent_as_that(arguments: str, meant: object) -> None:
    assert parsed(sent(arguments)) == meant
    assert sent(*arguments) == sent(arguments)


@pytest.mark.parametrize(
    "arguments", ["-Infinity", "[1]", '"s"', "{a: 1}", "{", "1e999", "{'a': ...}", "read hello.py"]
)
def test_what_has_none_comes_in_the_form_that_the_agent_can_act_on(arguments: str) -> None:
    assert parsed(sent(arguments)) == unparsed(arguments)
    assert sent(*arguments) == sent(arguments)


@pytest.mark.parametrize("arguments", ['{"a": [1, ', '{"a": "cut here', '{"a": "half\\', '{"a"'])
def test_what_was_cut_is_never_completed(arguments: str) -> None:
    assert parsed(sent(arguments, complete=False)) is None
    assert arguments.startswith(sent(arguments, complete=False))


@pytest.mark.parametrize("arguments", ['{"a": "cut here', '{"a": "half\\'])
def test_a_text_without_its_end_is_not_completed_even_when_the_engine_was_done(arguments: str) -> None:
    assert parsed(sent(arguments)) is None


def test_an_object_streams_and_what_is_none_waits() -> None:
    arguments = Arguments()
    assert [arguments.take(piece) for piece in ("{", '"a', '": "x', 'y"}', " }")] == ["", '{"a', '": "x', 'y"}', ""]
    assert arguments.closed
    foreign = Arguments()
    assert [foreign.take(piece) for piece in (" ", "{", "'a': 1}")] == ["", "", ""]
    assert not foreign.closed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(), JSON, max_size=3), st.lists(st.integers(0, 300), max_size=6), st.booleans())
def test_any_object_passes_unchanged_however_it_was_cut(
    value: dict[str, object], places: list[int], ascii: bool
) -> None:
    whole = json.dumps(value, ensure_ascii=ascii)
    edges = [0, *sorted(place % (len(whole) + 1) for place in places), len(whole)]
    assert sent(*(whole[a:b] for a, b in pairwise(edges))) == whole


@given(st.text(st.sampled_from("{}[]\"'\\,:a1 \n")), st.lists(st.integers(0, 60), max_size=4), st.booleans())
def test_any_text_is_the_same_however_it_was_cut(text: str, places: list[int], complete: bool) -> None:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    whole = sent(text, complete=complete)
    assert sent(*(text[a:b] for a, b in pairwise(edges)), complete=complete) == whole
    assert not complete or parsed(whole) is not None or text.lstrip().startswith("{")
