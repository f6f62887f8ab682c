"""When a pod stops itself: histories, and what holds in every one of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bootstrap.idle import GRACE_S, Idle

LIMIT_S = 600.0
NOTHING = {"clients": 0, "running": 0, "tokens": 100.0}

Signs = dict[str, Any]


def play(*history: tuple[float, Signs]) -> tuple[Idle, float]:
    """The last state, and what remains then."""
    idle, now = Idle(0.0), 0.0
    for now, signs in history:
        idle = idle.see(now, **signs)
    return idle, idle.remaining_s(LIMIT_S, now)


def test_before_the_first_request_only_the_long_grace_ends_it() -> None:
    assert play((LIMIT_S + 1, NOTHING))[1] == GRACE_S - LIMIT_S - 1
    assert play((GRACE_S, NOTHING))[1] == 0.0


def test_a_client_that_has_asked_nothing_keeps_it_up_and_does_not_arm_it() -> None:
    idle, remaining_s = play((5000.0, {**NOTHING, "clients": 1}), (5000.0 + LIMIT_S, NOTHING))
    assert (idle.armed, remaining_s > 0) == (False, True)


def test_after_the_first_request_the_countdown_runs_and_any_sign_of_life_begins_it_anew() -> None:
    idle, remaining_s = play((10.0, {"running": 1}), (310.0, NOTHING))
    assert (idle.busy, remaining_s) == (False, 300.0)
    for sign in ({"clients": 1}, {"running": 1}, {"tokens": 101.0}, {"tokens": 3.0}):
        idle, remaining_s = play((10.0, {"running": 1, "tokens": 100.0}), (500.0, sign), (700.0, {}))
        assert (idle.busy, remaining_s) == (False, 400.0), sign


def test_it_is_due_when_time_is_up_and_stays_due() -> None:
    for now in (610.0, 9000.0):
        assert play((10.0, {"running": 1}), (now, NOTHING))[1] == 0.0


def test_who_cannot_be_asked_is_no_sign_of_life() -> None:
    assert play((10.0, {"running": 1}), (610.0, {}))[1] == 0.0


def test_keep_begins_the_countdown_anew() -> None:
    idle, _ = play((10.0, {"running": 1}), (600.0, NOTHING))
    assert idle.keep(600.0).see(700.0, **NOTHING).remaining_s(LIMIT_S, 700.0) == 500.0


number = st.none() | st.integers(0, 3)
steps = st.lists(st.tuples(st.floats(0, 500), st.fixed_dictionaries(dict.fromkeys(NOTHING, number))))


@given(steps, st.floats(1, 1000))
def test_it_is_never_due_within_the_limit_of_a_sign_of_life(history: list[tuple[float, Signs]], limit_s: float) -> None:
    idle, now, alive = Idle(0.0), 0.0, 0.0
    for later, signs in history:
        now += later
        before, idle = idle, idle.see(now, **signs)
        alive = now if idle.busy else alive
        assert idle.armed or not before.armed
        remaining_s = idle.remaining_s(limit_s, now)
        assert 0.0 <= remaining_s <= max(limit_s, GRACE_S)
        assert not (remaining_s == 0.0 and now - alive < limit_s)
