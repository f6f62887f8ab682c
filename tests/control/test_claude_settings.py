"""A project's settings: ours in, the user's kept, the file for its owner alone."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.claude_settings import BEFORE, USUAL, git_would_take, merged, read, write
from control.connect import Environment
from control.errors import UsageError

ENV = Environment({"ANTHROPIC_BASE_URL": "http://pod", "ANTHROPIC_AUTH_TOKEN": "pas-client-x"}, ("ANTHROPIC_API_KEY",))
LINE = "passerelle statusline"

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
)


@given(st.dictionaries(st.text(), VALUES), st.dictionaries(st.text(), st.text()))
def test_nothing_of_the_users_is_lost(settings: dict[str, object], env: dict[str, str]) -> None:
    before = {**settings, "env": env}
    after = merged(before, ENV, LINE, "f").settings
    assert {key: after[key] for key in before if key != "env"} == {key: before[key] for key in before if key != "env"}
    kept = {key: value for key, value in env.items() if key not in {*ENV.set, *ENV.unset}}
    assert after["env"] == kept | {"ANTHROPIC_API_KEY": ""} | ENV.set
    assert merged(after, ENV, LINE, "f").settings == after, "a second time changes nothing"


def test_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / USUAL
    assert write(path, ENV, LINE) == ()
    assert json.loads(path.read_text()) == {
        "env": {"ANTHROPIC_API_KEY": "", **ENV.set},
        "statusLine": {"type": "command", "command": LINE},
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_the_users(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    before = '{"permissions": {"allow": ["Bash(ls)"]}, "env": {"ANTHROPIC_AUTH_TOKEN": "mine"}, "statusLine": {"x": 1}}'
    path.write_text(before)
    path.chmod(0o644)
    assert write(path, ENV, LINE) == ("ANTHROPIC_AUTH_TOKEN",)
    after = json.loads(path.read_text())
    assert (after["permissions"], after["statusLine"]) == ({"allow": ["Bash(ls)"]}, {"x": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = tmp_path / ("settings.json" + BEFORE)
    assert kept.read_text() == before
    other = Environment({**ENV.set, "ANTHROPIC_BASE_URL": "http://other"}, ENV.unset)
    assert write(path, other, LINE) == (), "what we wrote ourselves is ours to replace"
    assert kept.read_text() == before


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text("{}")
    link = tmp_path / "settings.json"
    link.symlink_to("dotfiles.json")
    write(link, ENV, LINE)
    assert link.is_symlink()
    assert read(tmp_path / "dotfiles.json")["env"]["ANTHROPIC_BASE_URL"] == "http://pod"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"env": []}', "// x\n{}", "\x00"])
def test_a_file_that_is_no_settings_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"settings\.json"):
        write(path, ENV, LINE)
    assert path.read_text() == text


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read(path) == {"a": 1}


@pytest.mark.process
def test_what_git_would_commit(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.local.json"
    path.parent.mkdir()
    assert git_would_take(path) is False, "no work tree"
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert git_would_take(path) is True
    (tmp_path / ".gitignore").write_text("settings.local.json\n")
    assert git_would_take(path) is False
