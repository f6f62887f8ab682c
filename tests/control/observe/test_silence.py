"""How long nothing was computed: seen by this watch, or told by the bridge when the watch has only begun."""

from __future__ import annotations

from control.observe.reduce import reduce
from control.observe.silence import silent_s
from control.observe.state import State
from control.observe.updates import Update
from tests.control.observe.reports import metrics, seen, turn


def after(*updates: tuple[float, Update]) -> State:
    state = State()
    for now, update in updates:
        state = reduce(state, update, now, now)
    return state


def test_before_the_first_scrape_nothing_is_known() -> None:
    assert silent_s(State(), 5) is None
    assert silent_s(after((0, seen(None, reachable=False))), 5) is None


def test_it_counts_from_the_last_movement() -> None:
    state = after((0, seen(metrics())), (1, seen(metrics(generation=5))), (9, seen(metrics(generation=5))))
    assert silent_s(state, 11) == 10


def test_a_first_look_believes_what_the_turns_have_heard() -> None:
    frozen = seen(metrics(), turns=(turn("a", last=90.0), turn("b", last=70.0), turn("c", "pending", last=None)))
    assert silent_s(after((0, frozen)), 2) == 72
    assert silent_s(after((0, seen(metrics(), turns=(turn("c", "pending", last=None),)))), 2) == 2


def test_movement_that_was_seen_outweighs_a_turn_that_hears_nothing() -> None:
    stalled = (turn("a", last=90.0),)
    state = after((0, seen(metrics(), turns=stalled)), (1, seen(metrics(generation=5), turns=stalled)))
    assert silent_s(state, 2) == 1
