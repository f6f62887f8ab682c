"""When a pod stops itself: histories, and what holds in every one of them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from bootstrap.idle import GRACE_S, Countdown, Idle, Signs, keep, step

LIMIT_S = 600.0
NOTHING = Signs(clients=0, running=0, tokens=100.0)


def play(*history: tuple[float, Signs]) -> tuple[Idle, Countdown]:
    idle, countdown = Idle(0.0), Countdown(math.inf, False, False)
    for now, signs in history:
        idle, countdown = step(idle, signs, LIMIT_S, now)
    return idle, countdown


def test_before_the_first_request_only_the_long_grace_ends_it() -> None:
    assert play((LIMIT_S + 1, NOTHING))[1] == Countdown(GRACE_S - LIMIT_S - 1, False, False)
    assert play((GRACE_S, NOTHING))[1].due


def test_a_client_that_has_asked_nothing_keeps_it_up_and_does_not_arm_it() -> None:
    idle, countdown = play((5000.0, Signs(clients=1, running=0, tokens=100.0)), (5000.0 + LIMIT_S, NOTHING))
    assert (idle.armed, countdown.due) == (False, False)


def test_after_the_first_request_the_countdown_runs_and_any_sign_of_life_begins_it_anew() -> None:
    _, countdown = play((10.0, Signs(running=1)), (310.0, NOTHING))
    assert countdown == Countdown(300.0, False, False)
    for sign in (Signs(clients=1), Signs(running=1), Signs(tokens=101.0), Signs(tokens=3.0)):
        _, countdown = play((10.0, Signs(running=1, tokens=100.0)), (500.0, sign), (700.0, Signs()))
        assert countdown == Countdown(400.0, False, False), sign


def test_it_is_due_when_time_is_up_and_stays_due() -> None:
    for now in (610.0, 9000.0):
        assert play((10.0, Signs(running=1)), (now, NOTHING))[1] == Countdown(0.0, True, False)


def test_who_cannot_be_asked_is_no_sign_of_life() -> None:
    assert play((10.0, Signs(running=1)), (610.0, Signs()))[1].due


def test_keep_begins_the_countdown_anew() -> None:
    idle, _ = play((10.0, Signs(running=1)), (600.0, NOTHING))
    assert step(keep(idle, 600.0), NOTHING, LIMIT_S, 700.0)[1] == Countdown(500.0, False, False)


def test_without_a_limit_it_is_off_and_arms_all_the_same() -> None:
    idle, countdown = step(Idle(0.0), Signs(running=1), None, 10.0)
    assert (idle.armed, countdown) == (True, Countdown(math.inf, False, True))
    assert step(idle, Signs(), None, 1e9)[1] == Countdown(math.inf, False, False)


number = st.none() | st.integers(0, 3)
steps = st.lists(st.tuples(st.floats(0, 500), st.builds(Signs, clients=number, running=number, tokens=number)))


@given(steps, st.floats(1, 1000))
def test_it_is_never_due_within_the_limit_of_a_sign_of_life(history: list[tuple[float, Signs]], limit_s: float) -> None:
    idle, now, alive = Idle(0.0), 0.0, 0.0
    for later, signs in history:
        now += later
        before, (idle, countdown) = idle, step(idle, signs, limit_s, now)
        alive = now if countdown.busy else alive
        assert idle.armed or not before.armed
        assert 0.0 <= countdown.remaining_s <= max(limit_s, GRACE_S)
        assert countdown.due is (countdown.remaining_s <= 0.0)
        assert not (countdown.due and now - alive < limit_s)
