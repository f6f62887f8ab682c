"""One row per agent; waiting told from prefill by the order of arrival."""

from __future__ import annotations

from control.observe.agents import FORGET_IDLE_S, agent_rows
from control.observe.snapshot import AgentView
from control.observe.state import State
from tests.control.observe.reports import agent, metrics, seen, turn


def rows(*, running: int | None, **parts: object) -> tuple[AgentView, ...]:
    return agent_rows(State(), seen(metrics(), **parts), running, 10.0)  # type: ignore[arg-type]


def test_the_oldest_pending_turns_are_those_that_run() -> None:
    turns = (turn("a", "text"), turn("b", "pending", age=9), turn("c", "pending", age=4), turn("d", "pending", age=6))
    phases = {row.session: row.phase for row in rows(running=3, turns=turns)}
    assert phases == {"a": "text", "b": "prefill", "d": "prefill", "c": "waiting"}


def test_a_pending_turn_waits_when_nothing_is_known_of_the_engine() -> None:
    assert rows(running=None, turns=(turn("a", "pending"),))[0].phase == "waiting"


def test_an_idle_agent_keeps_the_figures_of_its_last_turn_and_goes_after_a_while() -> None:
    row = rows(running=0, agents=(agent("a", idle=3.0),))[0]
    assert (row.phase, row.age_s, row.input_tokens, row.cached_tokens, row.output_tokens) == ("idle", 3.0, 90, 80, 20)
    assert rows(running=0, agents=(agent("a", idle=FORGET_IDLE_S + 1),)) == ()


def test_a_live_turn_hides_the_memory_of_its_agent() -> None:
    found = rows(running=1, turns=(turn("a"),), agents=(agent("a"),))
    assert [(row.session, row.phase) for row in found] == [("a", "text")]


def test_a_stalled_turn_is_one_that_decodes_and_hears_nothing() -> None:
    assert rows(running=1, turns=(turn("a", "text", last=25.0),))[0].stalled
    assert not rows(running=1, turns=(turn("a", "text", last=2.0),))[0].stalled
    assert not rows(running=0, turns=(turn("a", "pending", last=None),))[0].stalled


def test_rows_keep_their_order_whatever_the_agents_do() -> None:
    before = rows(running=2, turns=(turn("b"), turn("a")))
    after = rows(running=0, turns=(turn("a", "pending"),), agents=(agent("b"),))
    assert [row.session for row in before] == [row.session for row in after] == ["a", "b"]
