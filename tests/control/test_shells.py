"""Variables in the words of a shell: the real shells of this machine read back exactly what was meant."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.connect import Environment
from control.shells import WRITERS, as_json, fish, posix, powershell, usual

VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
NASTY = ["", "a b", "it's", "$(touch owned)", "`id`", "a;b|c&d", "\\", "\\'", "!x", "a\nb", '"', "~", "*", "é\u2019"]


def read_back(shell: str, text: str) -> str:
    """What the shell itself has in V after it ran the text, with KEY set before."""
    script = f"{text}\nprintf '%s' \"$V\"; printf '%s' \"${{KEY-gone}}\""
    if shell == "fish":
        script = f'{text}\nprintf "%s" "$V"; set -q KEY; and printf "%s" "$KEY"; or printf gone'
    done = subprocess.run([shell, "-c", script], capture_output=True, env={"KEY": "k", "LC_ALL": "C.UTF-8"}, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.process
@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
@pytest.mark.parametrize("value", NASTY)
def test_the_real_shell_reads_what_was_meant(shell: str, value: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    text = WRITERS["bash" if shell == "sh" else shell](Environment({"V": value}, ("KEY",)))
    assert read_back(shell, text) == value + "gone"


@pytest.mark.process
@settings(max_examples=25, deadline=None)
@given(VALUES)
def test_any_value_in_a_real_shell(value: str) -> None:
    assert read_back("sh", posix(Environment({"V": value}, ("KEY",)))) == value + "gone"


def test_fish() -> None:
    assert fish(Environment({"V": "it's \\ $x"}, ("KEY",))) == "set -e KEY\nset -gx V 'it\\'s \\\\ $x'"


def test_powershell_doubles_every_quote_that_it_takes_for_one() -> None:
    text = powershell(Environment({"V": "it's $x `n \u2018a\u2019\u201ab\u201b"}, ("KEY",)))
    assert text.splitlines() == [
        "Remove-Item Env:KEY -ErrorAction SilentlyContinue",
        "$env:V = 'it''s $x `n \u2018\u2018a\u2019\u2019\u201a\u201ab\u201b\u201b'",
    ]


@given(VALUES)
def test_powershell_has_no_way_out_of_the_string(value: str) -> None:
    """Read as PowerShell reads it: inside, two quotes of its kind are one, and the first lone one ends the string."""
    line = powershell(Environment({"V": value}, ()))
    body, read = line.removeprefix("$env:V = '"), ""
    while body:
        head, body = body[0], body[1:]
        if head in "'\u2018\u2019\u201a\u201b":
            if not body:
                break
            head, body = body[0], body[1:]
        read += head
    assert (read, body) == (value, "")


def test_json() -> None:
    assert json.loads(as_json(Environment({"V": "é\n"}, ("KEY",)))) == {"set": {"V": "é\n"}, "unset": ["KEY"]}


@pytest.mark.parametrize(
    ("variable", "windows", "name"),
    [
        ("/usr/bin/zsh", False, "zsh"),
        ("/opt/homebrew/bin/fish", False, "fish"),
        ("/bin/dash", False, "bash"),
        (None, False, "bash"),
        (None, True, "powershell"),
        ("/usr/bin/bash", True, "bash"),
    ],
)
def test_the_shell_that_one_types_into(variable: str | None, windows: bool, name: str) -> None:
    assert usual(variable, windows) == name
