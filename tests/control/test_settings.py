"""The operator's settings: what is written is what is read, and a mistake is named."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.errors import UsageError
from control.settings import Settings, load, parse, path, render, save

TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]))


@given(st.builds(Settings, TEXT, TEXT, TEXT, TEXT))
def test_what_is_written_is_read(settings: Settings) -> None:
    assert parse(render(settings), "f") == settings


def test_none_yet_and_then_some(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings()
    settings = Settings(hub="hf://datasets/owner/pods", ssh_key="C:\\Users\\u\\.ssh\\id_ed25519")
    assert save(settings, tmp_path) == path(tmp_path)
    assert load(tmp_path) == settings
    assert stat.S_IMODE(path(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hug = 'x'", "did you mean 'hub'?"),
        ("hub = 3", "hub should be a string, and is 3"),
        ("hub = =\nlog_mirror = 'x'", "line 1"),
        ("[hub]\nx = 'y'", "hub should be a string"),
    ],
)
def test_a_mistake_is_named(text: str, words: str, tmp_path: Path) -> None:
    path(tmp_path).write_text(text)
    with pytest.raises(UsageError) as caught:
        load(tmp_path)
    assert words in caught.value.message + caught.value.remedy
    assert str(path(tmp_path)) in caught.value.message


def test_what_is_no_text(tmp_path: Path) -> None:
    path(tmp_path).write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path)
