from __future__ import annotations

import json

import pytest

from bridge.guard import Guard


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
