"""The first help shows every verb once, in the order of need; and every verb's own help has an example that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from control.cli import cli, run
from control.cli_help import SECTIONS, short


@pytest.fixture(autouse=True)
def registered(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--version"], None)
    capsys.readouterr()


def verbs(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, verb in command.commands.items():
            yield from verbs(verb, (*path, name))
    else:
        yield path, command


@pytest.mark.parametrize("columns", ["80", "120"])
def test_every_verb_is_there_once_and_its_line_is_a_sentence(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["--help"], None) == 0
    out = capsys.readouterr().out
    for name in cli.commands:
        (line,) = re.findall(rf"^  {name} +(.*)$", out, re.MULTILINE)
        assert line
        assert not line.endswith(("...", ",", ":"))
    assert "More:" not in out, "each verb has its section"
    assert max(map(len, out.splitlines())) <= 110


def test_sections_name_what_exists_each_once() -> None:
    for group, sections in SECTIONS.items():
        there = cli if group == "cli" else cli.commands[group]
        assert isinstance(there, click.Group)
        named = [name for _, names in sections for name in names]
        assert len(named) == len(set(named))
        assert set(named) == set(there.commands), group


def test_the_way_is_in_the_order_in_which_it_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"], None)
    out = capsys.readouterr().out
    way = ["demo ", "init ", "doctor ", "pod offers", "pod create", "watch ", "connect)", "pod stop"]
    places = [out.index(f"  passerelle {step}") if step != "connect)" else out.index(step) for step in way]
    assert places == sorted(places)


def test_every_verb_has_an_example_of_itself() -> None:
    without = [" ".join(path) for path, verb in verbs(cli) if "Example" not in (verb.help or "")]
    assert without == []


def test_every_example_is_a_verb_that_exists() -> None:
    known = {path for path, _ in verbs(cli)}
    groups = {path[:1] for path in known if len(path) == 2}
    for path, verb in verbs(cli):
        for words in re.findall(r"passerelle ([a-z-]+(?: [a-z-]+)?)", verb.help or ""):
            named = tuple(words.split())
            assert named[:2] in known or named[:1] in known or named[:1] in groups, (path, words)


def test_a_long_sentence_is_cut_where_it_pauses() -> None:
    verb = click.Command("v", help="Do this, and then that: it helps; see docs.")
    assert [short(verb, limit) for limit in (80, 30, 10)] == [
        "Do this, and then that: it helps; see docs",
        "Do this, and then that",
        "Do this",
    ]
    assert short(click.Command("v", help="Do without any pause at all"), 15) == "Do without..."
