"""The bridge's restart: asked, taken, seen back; late; failed."""

from __future__ import annotations

from console.restarting import (
    KEEP_S,
    LATE_S,
    Restarting,
    Step,
    accepted,
    ask,
    busy,
    dismiss,
    failed,
    late,
    seen,
    tick,
)


def asked(now: float = 10.0, restarts: int | None = 1) -> Restarting:
    state = ask(Restarting(), restarts, now)
    assert state is not None
    return state


def test_it_is_back_when_the_count_grew_and_the_light_is_good() -> None:
    state = accepted(asked())
    assert seen(state, 1, True, 11.0) is state
    assert seen(state, 2, False, 11.0) is state
    back = seen(state, 2, True, 12.5)
    assert (back.step, back.took_s) == (Step.BACK, 2.5)


def test_a_report_may_come_before_the_call_returns() -> None:
    back = seen(asked(), 2, True, 10.4)
    assert back.step is Step.BACK
    assert accepted(back) is back
    assert failed(back, "reset", "", 10.5) is back


def test_a_count_that_was_not_known_is_learnt_first() -> None:
    state = seen(asked(restarts=None), 7, True, 11.0)
    assert (state.step, state.before) == (Step.ASKED, 7)
    assert seen(state, 8, True, 12.0).step is Step.BACK


def test_the_key_does_nothing_while_one_is_under_way() -> None:
    state = asked()
    assert busy(state)
    assert ask(state, 1, 12.0) is None
    assert dismiss(state) is state


def test_a_late_one_may_be_tried_again() -> None:
    state = accepted(asked())
    assert late(state, 10.0 + LATE_S)
    assert ask(state, 1, 10.0 + LATE_S) == asked(10.0 + LATE_S)


def test_a_failure_stays_until_it_is_put_away() -> None:
    state = failed(asked(), "401", "log in again", 11.0)
    assert (state.step, state.message, state.remedy) == (Step.FAILED, "401", "log in again")
    assert tick(state, 11.0 + 10 * KEEP_S) is state
    assert dismiss(state) == Restarting()


def test_a_good_result_leaves_by_itself() -> None:
    back = seen(asked(), 2, True, 12.0)
    assert tick(back, 12.0 + KEEP_S - 0.1) is back
    assert tick(back, 12.0 + KEEP_S) == Restarting()
