"""Every agent has its row, or is counted among those that do not fit; the worst are never the ones left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.rows import cells, text
from console.widgets.agents import agents
from control.observe.snapshot import AgentPhase, AgentView
from tests.console.snapshots import SIX, agent, capacity, crowd

PHASES: tuple[AgentPhase, ...] = ("connecting", "waiting", "prefill", "thinking", "text", "tool", "idle")
many = st.lists(
    st.builds(
        agent,
        st.text(max_size=40),
        st.text(max_size=60),
        st.sampled_from(PHASES),
        stalled=st.booleans(),
        age_s=st.none() | st.floats(0, 1e6),
        input_tokens=st.none() | st.integers(0, 1_048_576),
        cached_tokens=st.none() | st.integers(0, 1_048_576),
        output_tokens=st.none() | st.integers(0, 99_999),
        tok_s=st.none() | st.floats(0, 9_999),
        last_stop=st.none() | st.text(max_size=40),
    ),
    max_size=30,
)


def lines(found: tuple[AgentView, ...], width: int = 118, height: int = 10) -> list[str]:
    return [text(row).rstrip() for row in agents(found, width, height)]


def test_six_agents_are_six_rows_with_sub_agents_under_their_session() -> None:
    drawn = lines(SIX)
    assert [" ".join(line.split()[:3]) for line in drawn[1:]] == [
        "77c0d4e1 main tool",
        "77c0d4e1 └ reviewer",
        "a3f19c02 main text",
        "a3f19c02 ├ explore",
        "a3f19c02 └ tests",
        "b81e20aa main text",
    ]


def test_a_row_says_tokens_share_speed_and_ages() -> None:
    row = next(line for line in lines(SIX) if "118 402" in line)
    assert row.split() == ["a3f19c02", "main", "text", "118", "402", "97", "%", "812", "27.1", "2.1", "s", "31", "s",
                           "40", "ms"]  # fmt: skip


def test_waiting_and_stalled_have_their_glyphs() -> None:
    drawn = "\n".join(lines((*capacity().agents, agent("f", "main", "text", stalled=True))))
    assert drawn.count("▲ waiting") == 3
    assert drawn.count("■ stalled") == 1


def test_a_prompt_that_is_not_counted_yet_is_about_as_long_as_the_last_one() -> None:
    waiting = agent("a", "main", "waiting", input_tokens=None, last_input_tokens=131_088)
    assert "~131 088" in lines((waiting,))[1]


def test_connecting_is_worth_a_glyph_only_when_it_lasts() -> None:
    fresh, slow = agent("a", "main", "connecting", age_s=0.3), agent("b", "main", "connecting", age_s=9.0)
    assert ["▲" in line for line in lines((fresh, slow))[1:]] == [False, True]


def test_a_turn_that_ended_badly_says_how() -> None:
    ended = agent("a", "main", "idle", last_stop="overloaded_error")
    well = agent("b", "main", "idle", last_stop="end_turn")
    assert [line.split()[-2:] for line in lines((ended, well))[1:]] == [
        ["▲", "overloaded_error"],
        ["s", "end_turn"],
    ] or ("▲ overloaded_error" in lines((ended, well))[1] and "▲" not in lines((ended, well))[2])


def test_when_they_do_not_fit_the_worst_are_shown() -> None:
    drawn = lines(crowd().agents, height=6)
    assert len(drawn) == 6
    assert any("■ stalled" in line for line in drawn)
    assert any("a3f19c02" in line for line in drawn)
    assert any("▲ overloaded_error" in line for line in drawn)
    assert drawn[-1] == "+39 more: 39 idle"


def test_hostile_names_are_harmless() -> None:
    assert "\x1b" not in "".join(lines((agent("\x1b[2Jx", "\x1b]0;t\x07y", "text", last_stop="\x1b[0m"),)))


@pytest.mark.parametrize("width", [58, 78, 118, 158])
@given(found=many, height=st.integers(2, 20))
def test_columns_hold_and_nobody_is_forgotten(width: int, found: list[AgentView], height: int) -> None:
    """Rows fit; shown and counted ones together are all of them."""
    drawn = agents(tuple(found), width, height)
    assert len(drawn) <= height
    assert all(cells(row) <= width or not text(row).isascii() for row in drawn)
    shown = len(drawn) - 1
    if len(found) > height - 1:
        assert text(drawn[-1]).startswith(f"+{len(found) - (shown - 1)} more")
    else:
        assert shown == len(found)
