"""The log screen: it keeps what the snapshots no longer hold, filters with /, wraps with w, and leads back."""

from __future__ import annotations

from dataclasses import replace

from bootstrap.report import LogLine
from console.widgets.log_view import LogView
from tests.console.pane import pane
from tests.console.snapshots import AT, healthy
from tests.console.test_app import desk


async def test_lines_of_earlier_snapshots_are_kept() -> None:
    later = replace(healthy(AT + 1), log=(LogLine(820, AT + 1, "bridge", "info", "a later line"),))
    async with desk([healthy(), later]) as d:
        await d.press("l")
        assert "9 lines" in d.screen
        assert "config #41 applied" in d.screen
        assert "a later line" in d.screen


async def test_a_filter_is_typed_kept_and_cleared() -> None:
    async with desk() as d:
        await d.press("l", "slash", *"tri")
        assert "1 of 8 lines hold tri" in d.screen
        assert "Triton" in d.screen
        assert "config #41" not in d.screen
        await d.press("enter")
        assert d.app.focused is d.app.screen.query_one(LogView)
        assert "1 of 8 lines" in d.screen
        await d.press("escape")
        assert "8 lines" in d.screen
        assert len(d.app.screen_stack) == 2
        await d.press("escape")
        assert len(d.app.screen_stack) == 1


async def test_letters_of_a_filter_are_not_keys() -> None:
    async with desk() as d:
        await d.press("l", "slash", *"sbq")
        assert d.session.calls == []
        assert "0 of 8 lines hold sbq" in d.screen
        assert "STOPPING" not in d.screen


async def test_wrapping() -> None:
    async with desk(size=(80, 24)) as d:
        await d.press("l")
        assert "KV cache usage" not in d.screen
        await d.press("w")
        assert "GPU KV cache usage" in d.screen
        assert "wrapped" in d.screen


async def test_it_holds_when_scrolled_and_follows_when_told() -> None:
    many = tuple(LogLine(seq, AT + seq / 100, "engine", "info", f"number {seq}") for seq in range(900, 1000))
    async with desk([replace(healthy(), log=many)], (80, 24)) as d:
        await d.press("l")
        assert "number 999" in d.screen
        await d.press("home")
        assert "▲ held: G follows" in d.screen
        await d.show(replace(healthy(), log=(LogLine(1000, AT + 60, "engine", "info", "number 1000"),)))
        assert "number 900" in d.screen
        await d.press("G")
        assert "number 1000" in pane(d.app)
        assert "● follows" in d.screen
