"""The log view keeps every character, follows until it is held, filters and wraps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from bootstrap.report import LogLine
from console.rows import cells, text
from console.widgets.log_tail import log_row
from console.widgets.log_view import INDENT, LogView, _broken, _marked
from tests.console.pane import lines


class Host(App[None]):
    CSS_PATH = "../../../console/app.tcss"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        from console.themes import DARK_MEANINGS

        return DARK_MEANINGS

    def compose(self) -> ComposeResult:
        yield LogView(id="log-view")


def book(count: int) -> tuple[LogLine, ...]:
    return tuple(LogLine(seq, float(seq), "engine", "info", f"line {seq} of the log") for seq in range(1, count + 1))


async def test_it_follows_until_it_is_scrolled_and_again_when_told() -> None:
    app = Host()
    async with app.run_test(size=(80, 10)) as pilot:
        view = app.query_one(LogView)
        view.focus()
        view.book = book(100)
        await pilot.pause()
        assert "line 100 " in lines(app)[-1] or "line 100" in lines(app)[-1]
        await pilot.press("home")
        await pilot.pause()
        assert not view.following
        view.book = book(200)
        await pilot.pause()
        assert "line 1 of" in lines(app)[0]
        view.action_follow()
        await pilot.pause()
        assert "line 200" in lines(app)[-1]


async def test_a_filter_and_its_end() -> None:
    app = Host()
    async with app.run_test(size=(80, 10)) as pilot:
        view = app.query_one(LogView)
        view.book = book(100)
        view.needle = "LINE 77"
        await pilot.pause()
        assert [line[22:] for line in lines(app) if line] == ["line 77 of the log"]
        view.needle = ""
        await pilot.pause()
        assert "line 100" in lines(app)[-1]


words = st.text(st.characters(codec="utf-8"), max_size=300)


@given(words, st.integers(40, 150))
def test_wrapping_loses_nothing(said: str, width: int) -> None:
    """The pieces, without their indent, are the row."""
    row = log_row(LogLine(1, 0.0, "engine", "info", said))
    pieces = _broken(row, width)
    assert text(pieces[0]) + "".join(text(piece)[INDENT:] for piece in pieces[1:]) == text(row)
    assert all(cells(piece) <= width + 1 for piece in pieces) or not said.isascii()


def test_wrapping_breaks_between_words() -> None:
    row = log_row(LogLine(1, 0.0, "engine", "info", "alpha beta gamma delta epsilon zeta eta theta"))
    assert [text(piece)[INDENT:].strip() for piece in _broken(row, INDENT + 18)] == [
        "alpha beta gamma",
        "delta epsilon zeta",
        "eta theta",
    ]


@pytest.mark.parametrize(("needle", "marked"), [("JIT", ["JIT", "jit"]), ("", []), ("none", [])])
def test_matches_are_marked(needle: str, marked: list[str]) -> None:
    row = _marked(log_row(LogLine(1, 0.0, "engine", "warning", "a JIT and a jit")), needle)
    assert [part for role, part in row if role == "match"] == marked
    assert text(row).endswith("a JIT and a jit")
