"""The stop: every (phase, event), and what must hold over any history of keys, answers and silences."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.stopping import (
    BUDGET_COUNTDOWN_S,
    COUNTDOWN_S,
    ENDED,
    OVERDUE_S,
    TRANSITIONS,
    Accepted,
    Command,
    Event,
    Failed,
    KeepKey,
    NowKey,
    OverBudget,
    Phase,
    Seen,
    StartKey,
    StopKey,
    Stopping,
    Tick,
    remaining,
    step,
    ticks,
)
from control.models import PodState

EVENTS: dict[str, Event] = {
    "s": StopKey(),
    "esc": KeepKey(),
    "enter": NowKey(),
    "r": StartKey(),
    "tick": Tick(),
    "accepted": Accepted(),
    "failed": Failed("no", "try"),
    "over budget": OverBudget(5.0),
    "running": Seen(PodState.RUNNING, 1.0),
    "stopping": Seen(PodState.STOPPING, 1.0),
    "silent": Seen(PodState.UNKNOWN, 1.0),
    "exited": Seen(PodState.EXITED, 1.0),
    "terminated": Seen(PodState.TERMINATED, 1.0),
}

EARLY, LATE = 1.0, 100.0
"""Seconds since the phase began: before and after both deadlines."""

P, C = Phase, Command
STAYS = None
CHANGES: dict[tuple[Phase, str, float | None], tuple[Phase, Command | None]] = {
    (P.READY, "s", None): (P.COUNTDOWN, None),
    (P.READY, "over budget", None): (P.COUNTDOWN, None),
    (P.READY, "exited", None): (P.EXITED, None),
    (P.READY, "terminated", None): (P.EXITED, None),
    (P.COUNTDOWN, "esc", None): (P.READY, None),
    (P.COUNTDOWN, "enter", None): (P.SENDING, C.STOP),
    (P.COUNTDOWN, "tick", LATE): (P.SENDING, C.STOP),
    (P.COUNTDOWN, "exited", None): (P.EXITED, None),
    (P.COUNTDOWN, "terminated", None): (P.EXITED, None),
    (P.SENDING, "accepted", None): (P.WAITING, None),
    (P.SENDING, "failed", None): (P.STOP_FAILED, None),
    (P.SENDING, "exited", None): (P.EXITED, None),
    (P.SENDING, "terminated", None): (P.EXITED, None),
    (P.WAITING, "tick", LATE): (P.OVERDUE, None),
    (P.WAITING, "exited", None): (P.EXITED, None),
    (P.WAITING, "terminated", None): (P.EXITED, None),
    (P.OVERDUE, "s", None): (P.SENDING, C.STOP),
    (P.OVERDUE, "esc", None): (P.READY, None),
    (P.OVERDUE, "exited", None): (P.EXITED, None),
    (P.OVERDUE, "terminated", None): (P.EXITED, None),
    (P.STOP_FAILED, "s", None): (P.SENDING, C.STOP),
    (P.STOP_FAILED, "esc", None): (P.READY, None),
    (P.STOP_FAILED, "exited", None): (P.EXITED, None),
    (P.STOP_FAILED, "terminated", None): (P.EXITED, None),
    (P.EXITED, "r", None): (P.STARTING, C.START),
    (P.EXITED, "running", None): (P.READY, None),
    (P.STARTING, "failed", None): (P.START_FAILED, None),
    (P.STARTING, "running", None): (P.READY, None),
    (P.STARTING, "exited", LATE): (P.START_FAILED, None),
    (P.STARTING, "terminated", LATE): (P.START_FAILED, None),
    (P.START_FAILED, "r", None): (P.STARTING, C.START),
    (P.START_FAILED, "esc", None): (P.READY, None),
    (P.START_FAILED, "running", None): (P.READY, None),
}
"""(phase, event, seconds since; None: at any time) -> (next phase, command). Everything that is not here stays."""


@pytest.mark.parametrize("since", [EARLY, LATE])
@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("phase", Phase)
def test_every_phase_and_event(phase: Phase, name: str, since: float) -> None:
    was = Stopping(phase, since=10.0, pod_state=PodState.EXITED if phase is P.EXITED else PodState.RUNNING)
    now, command = step(was, EVENTS[name], 10.0 + since)
    expected = CHANGES.get((phase, name, since), CHANGES.get((phase, name, None), (phase, None)))
    assert (now.phase, command) == expected


def test_the_table_has_every_phase() -> None:
    assert set(TRANSITIONS) == set(Phase)


def test_the_countdown_is_three_seconds() -> None:
    counting, _ = step(Stopping(), StopKey(), 100.0)
    assert remaining(counting, 100.0) == COUNTDOWN_S
    assert step(counting, Tick(), 102.9)[0].phase is P.COUNTDOWN
    assert step(counting, Tick(), 103.0) == (Stopping(P.SENDING, since=103.0), C.STOP)


def test_a_used_up_budget_counts_down_longer_and_once() -> None:
    state, command = step(Stopping(), OverBudget(5.0), 10.0)
    assert (state.phase, state.budget, command) == (P.COUNTDOWN, 5.0, None)
    assert remaining(state, 10.0) == BUDGET_COUNTDOWN_S == 30.0
    assert step(state, Tick(), 39.9)[1] is None
    assert step(state, Tick(), 40.0)[1] is C.STOP
    kept, _ = step(state, KeepKey(), 12.0)
    assert (kept.phase, kept.budget) == (P.READY, None)
    assert step(kept, OverBudget(5.0), 13.0) == (kept, None), "it was taken back"
    assert step(kept, OverBudget(8.0), 13.0)[0].phase is P.COUNTDOWN, "another budget is another question"
    by_key, _ = step(kept, StopKey(), 20.0)
    assert remaining(by_key, 20.0) == COUNTDOWN_S


def test_a_pod_that_is_started_again_over_its_budget_is_left_alone() -> None:
    state = Stopping()
    for event, now in (
        (OverBudget(5.0), 0.0),
        (NowKey(), 1.0),
        (Accepted(), 2.0),
        (Seen(PodState.EXITED, 3.0), 3.0),
        (StartKey(), 4.0),
        (Seen(PodState.RUNNING, 5.0), 5.0),
    ):
        state, _ = step(state, event, now)
    assert state.phase is P.READY
    assert step(state, OverBudget(5.0), 6.0) == (state, None)


def test_a_second_press_of_the_key_does_not_confirm() -> None:
    counting, _ = step(Stopping(), StopKey(), 100.0)
    assert step(counting, StopKey(), 100.1) == (counting, None)


def test_the_age_of_a_stop_counts_from_when_it_was_sent() -> None:
    sending, _ = step(Stopping(P.COUNTDOWN, since=1.0), NowKey(), 2.0)
    waiting, _ = step(sending, Accepted(), 9.0)
    assert (waiting.phase, waiting.since) == (P.WAITING, 2.0)
    assert step(waiting, Tick(), 2.0 + OVERDUE_S)[0].phase is P.OVERDUE


def test_exited_carries_the_time_at_which_it_was_seen() -> None:
    done, _ = step(Stopping(P.WAITING, since=1.0), Seen(PodState.EXITED, 1_796_132_762.0), 5.0)
    assert (done.verified_at, done.pod_state) == (1_796_132_762.0, PodState.EXITED)


def test_a_failed_call_keeps_its_words() -> None:
    failed, _ = step(Stopping(P.SENDING), Failed("the API says 500", "try again in a minute"), 5.0)
    assert (failed.message, failed.remedy) == ("the API says 500", "try again in a minute")


def test_a_terminated_pod_is_not_started() -> None:
    gone = Stopping(P.EXITED, pod_state=PodState.TERMINATED)
    assert step(gone, StartKey(), 5.0) == (gone, None)


def test_an_exit_that_turns_out_final_says_so() -> None:
    now, _ = step(Stopping(P.EXITED, pod_state=PodState.EXITED), Seen(PodState.TERMINATED, 2.0), 5.0)
    assert (now.phase, now.pod_state) == (P.EXITED, PodState.TERMINATED)


def test_time_is_watched_only_where_it_matters() -> None:
    assert {phase for phase in Phase if ticks(Stopping(phase))} == {
        P.COUNTDOWN, P.SENDING, P.WAITING, P.OVERDUE, P.STARTING,
    }  # fmt: skip


@dataclass
class Entry:
    event: Event
    now: float


histories = st.lists(st.tuples(st.sampled_from(list(EVENTS.values())), st.sampled_from([0.0, 0.2, 1.0, 3.0, 61.0])))


@given(histories)
def test_any_history(moves: list[tuple[Event, float]]) -> None:
    """A stop is sent only after s, or a used-up budget, and then not before 3 s (30 s) without Enter nor after Esc;
    exited only if it was said."""
    state, now, pressed = Stopping(), 0.0, False
    for event, later in moves:
        now += later
        was = state
        state, command = step(was, event, now)
        if isinstance(event, StopKey | OverBudget):
            pressed = True
        if command is C.STOP:
            assert pressed
            whole = COUNTDOWN_S if was.budget is None else BUDGET_COUNTDOWN_S
            assert isinstance(event, NowKey | StopKey) or now - was.since >= whole
            assert was.phase in (P.COUNTDOWN, P.OVERDUE, P.STOP_FAILED)
        if isinstance(event, KeepKey) and was.phase is P.COUNTDOWN:
            assert state.phase is P.READY
            pressed = False
        if state.phase is P.EXITED and was.phase is not P.EXITED:
            assert isinstance(event, Seen)
            assert event.state in ENDED
