"""The doctor's judgements: each finding has its level, its words, and what to do about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control import doctor
from control.claude_code import TESTED, Installed
from control.doctor import Check, Level, Machine, exit_code, lines
from control.hub_account import Holder, Repo

HERE = Machine((3, 12, 4), "linux", True, "xterm-256color", "utf-8", (120, 40), True)


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({}, Level.OK, "true colour"),
        ({"true_colour": False}, Level.OK, "ansi"),
        ({"is_terminal": False, "term": "dumb"}, Level.OK, "--json"),
        ({"term": "dumb"}, Level.WARN, "TERM=dumb"),
        ({"encoding": "ANSI_X3.4-1968"}, Level.WARN, "UTF-8"),
        ({"encoding": "UTF8"}, Level.OK, "120×40"),
        ({"size": (79, 40)}, Level.WARN, "79×40 is small"),
        ({"size": (80, 23)}, Level.WARN, "80×23 is small"),
    ],
)
def test_the_terminal(change: dict[str, object], level: Level, words: str) -> None:
    check = doctor.terminal(replace(HERE, **change))  # type: ignore[arg-type]
    assert check.level is level
    assert words in check.says + check.remedy


def test_python_and_the_system() -> None:
    assert [check.level for check in doctor.machine(HERE)] == [Level.OK, Level.OK]
    old = doctor.machine(replace(HERE, python=(3, 10, 9)))[0]
    assert (old.level, old.says) == (Level.FAIL, "3.10.9 is too old")
    assert "need Linux" in doctor.machine(replace(HERE, system="darwin"))[1].says


@pytest.mark.parametrize(
    ("ahead_s", "level"),
    [
        (None, Level.WARN),
        (0.0, Level.OK),
        (-4.9, Level.OK),
        (5.0, Level.WARN),
        (-119.0, Level.WARN),
        (120.0, Level.FAIL),
        (-7200.0, Level.FAIL),
    ],
)
def test_the_clock(ahead_s: float | None, level: Level) -> None:
    assert doctor.clock(ahead_s).level is level


def test_a_clock_says_which_way_it_is_off() -> None:
    assert doctor.clock(60.0).says == "60 s ahead of the Hub's"
    assert doctor.clock(-60.0).says == "60 s behind the Hub's"


@pytest.mark.parametrize(
    ("held", "level"),
    [
        (Holder("alice", "write"), Level.OK),
        (Holder("alice", "read"), Level.FAIL),
        (Holder("alice", "fineGrained"), Level.WARN),
        (Holder("alice", "fineGrained", ("repo.content.read on alice/pods",)), Level.WARN),
        (Holder("alice", "fineGrained", ("repo.content.read, repo.write on alice/pods",)), Level.OK),
    ],
)
def test_the_hubs_token(held: Holder, level: Level) -> None:
    assert doctor.token("HF_TOKEN", "keyring", held).level is level


@pytest.mark.parametrize(
    ("url", "found", "level"),
    [
        (None, None, Level.WARN),
        ("hf://datasets/a/b", "private", Level.OK),
        ("hf://datasets/a/b", "public", Level.WARN),
        ("hf://datasets/a/b", "not seen", Level.FAIL),
        ("dir:///srv/hub", None, Level.OK),
    ],
)
def test_a_store(url: str | None, found: Repo | None, level: Level) -> None:
    assert doctor.store("config store", url, found).level is level


@pytest.mark.parametrize(
    ("path", "fault", "agent", "keys", "level"),
    [
        (None, None, None, None, Level.WARN),
        ("/k", None, None, None, Level.OK),
        ("/k", "No such file or directory", None, None, Level.FAIL),
        ("/k", "encrypted", "/agent", 1, Level.OK),
        ("/k", "encrypted", "/agent", None, Level.FAIL),
        (None, None, "/agent", 0, Level.FAIL),
        (None, None, "/agent", None, Level.FAIL),
        (None, None, "/agent", 2, Level.OK),
    ],
)
def test_the_ssh_key(path: str | None, fault: str | None, agent: str | None, keys: int | None, level: Level) -> None:
    assert doctor.ssh_key(path, fault, agent, keys).level is level


def test_claude_code() -> None:
    assert doctor.claude_code(Installed("/c", TESTED)).level is Level.OK
    assert doctor.claude_code(Installed("/c", "1.0.0")).level is Level.WARN
    assert doctor.claude_code(None).says == "Claude Code is not on PATH"


def test_what_outranks_a_pods_token() -> None:
    assert doctor.claude_environment({"PATH": "/bin", "ANTHROPIC_API_KEY": ""}).level is Level.OK
    check = doctor.claude_environment({"ANTHROPIC_API_KEY": "sk-ant-planted", "CLAUDE_CODE_USE_VERTEX": "1"})
    assert check.level is Level.WARN
    assert "ANTHROPIC_API_KEY, CLAUDE_CODE_USE_VERTEX" in check.says
    assert "planted" not in repr(check)


def test_a_missing_key() -> None:
    assert doctor.key_found("HF_TOKEN", "keyring") is None
    missing = doctor.key_found("HF_TOKEN", None)
    assert missing is not None
    assert missing.level is Level.FAIL


def test_every_finding_has_a_remedy_and_the_worst_decides() -> None:
    good, odd, bad = Check("a", Level.OK, "x"), Check("b", Level.WARN, "y", "do"), Check("c", Level.FAIL, "z", "mend")
    assert [exit_code(found) for found in ([], [good], [odd, good], [bad, odd])] == [0, 0, 1, 2]
    assert lines([good, bad]) == ["ok    a  x", "fail  c  z", "         -> mend"]
