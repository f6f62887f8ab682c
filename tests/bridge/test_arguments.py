from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.arguments import Arguments, Guard, parsed, unparsed


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


def reviewed(content: str, tool: str = "Write", field: str = "content", mode: str = "refuse") -> tuple[Guard, str]:
    guard = Guard("refuse" if mode == "refuse" else "warn")
    sent = json.dumps({"file_path": "/a.py", field: content})
    return guard, guard.review(tool, sent) or sent


MARKERS = [
    "# ... rest of file",
    "# ... rest of file unchanged ...",
    "    // ... existing code ...",
    "/* ... rest of the code remains the same ... */",
    "<!-- rest of the file unchanged -->",
    "{/* ... rest of component ... */}",
    "[... previous ...]",
    "[... previous content ...]",
    "(rest of the file",
    "(rest of the file stays as it was before this change)",
    "[rest of code omitted for brevity]",
    "<unchanged>",
    "(reste du fichier inchangé)",
    "# ... reste du fichier",
    "# le reste du fichier est inchangé",
    "-- remaining functions unchanged",
    "# the remainder of this module is unchanged",
    "… unchanged …",
    "// (keep the existing implementation)",
]


@pytest.mark.parametrize("marker", MARKERS)
def test_an_explicit_marker_is_found_wherever_its_line_is(marker: str) -> None:
    for content in (marker, f"import os\n\n{marker}\n", f"a\r\n{marker}\n\ndef f():\n    pass\n"):
        guard, arguments = reviewed(content)
        assert guard.found == [marker.strip()]
        assert json.loads(arguments).keys() == {"file_path", "refused"}


INNOCENT = [
    "[...]",
    "# ...",
    "...",
    "def f() -> None: ...",
    "x = a[...]",
    "print('...')",
    "(a, *rest) = of",
    "The rest of the file is unchanged.",
    "* The rest of the file is unchanged.",
    "We then read the rest of the file ... and close it.",
    '    "... rest of file",',
    "`... rest of file`",
    "# reads the rest of the file",
    "# Rest of the file",
    "// Unchanged since 1999",
    "<previous>",
    "// copies existing code into place",
    "rest_of_file = data[4:]",
    "    # ... and so on for the rest of the rows",
    "lorem ipsum [...] dolor",
    "## Previous code review",
    "case (.other):",
]


@pytest.mark.parametrize("line", INNOCENT)
def test_no_false_alarm(line: str) -> None:
    guard, arguments = reviewed(f"import os\n{line}\n")
    assert guard.found == []
    assert json.loads(arguments)["content"] == f"import os\n{line}\n"


@pytest.mark.parametrize(
    ("tool", "field"), [("Write", "content"), ("write_file", "content"), ("create_file", "file_text")]
)
def test_the_agent_is_told_what_to_do(tool: str, field: str) -> None:
    guard, arguments = reviewed("# ... rest of file", tool, field)
    assert guard.holds(tool)
    refused = json.loads(arguments)
    assert refused["file_path"] == "/a.py"
    assert field not in refused
    assert "'# ... rest of file'" in refused["refused"]
    assert "edit tool" in refused["refused"]


def test_other_tools_and_calls_that_are_no_object_pass() -> None:
    guard, arguments = reviewed("# ... rest of file", "Edit")
    assert (guard.found, json.loads(arguments)["content"]) == ([], "# ... rest of file")
    assert not guard.holds("Edit")
    for broken in ('{"content": "# ... rest of file', "[]", "", '{"content": 3}'):
        assert guard.review("Write", broken) is None
    assert guard.found == []


def test_a_warning_lets_the_call_through() -> None:
    guard, arguments = reviewed("# ... rest of file", mode="warn")
    assert not guard.holds("Write")
    assert guard.found == ["# ... rest of file"]
    assert json.loads(arguments)["content"] == "# ... rest of file"
