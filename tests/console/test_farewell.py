"""What is printed after the screen: it never says stopped unless the provider did."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from console.farewell import outcome
from console.stopping import Phase, Stopping
from control.models import PodState
from tests.console.snapshots import AT, POD, healthy, stopped, unknown, unreachable


def test_a_running_pod_says_what_it_costs_and_how_to_stop_it() -> None:
    left = outcome(POD, healthy(), Stopping())
    assert (left.left, left.stopped) == (True, False)
    assert left.farewell == (
        f"pod {POD} keeps running: 1.69 $/h · spent 3.78 $ · stop it with: passerelle pod stop {POD}"
    )


def test_a_verified_stop_says_when_and_what_is_left_to_pay() -> None:
    done = Stopping(Phase.EXITED, pod_state=PodState.EXITED, verified_at=AT)
    left = outcome(POD, stopped(), done, UTC)
    assert left.stopped
    assert left.farewell == (f"pod {POD} is EXITED, verified 13:46:07 · compute 0 $/h · disk 0.02 $/day · spent 3.78 $")


@pytest.mark.parametrize("phase", [Phase.SENDING, Phase.WAITING, Phase.OVERDUE])
def test_a_stop_that_is_not_verified_is_not_called_one(phase: Phase) -> None:
    left = outcome(POD, healthy(), Stopping(phase))
    assert not left.stopped
    assert "not verified yet" in left.farewell
    assert f"passerelle pod stop {POD}" in left.farewell


def test_a_pod_of_which_nothing_is_known_may_cost() -> None:
    for snap in (None, unknown()):
        left = outcome(POD, snap, Stopping())
        assert not left.stopped
        assert "may run and cost" in left.farewell


def test_an_unreachable_pod_keeps_running() -> None:
    assert "keeps running" in outcome(POD, unreachable(), Stopping()).farewell


def test_a_pod_on_its_way_down_is_called_what_it_was_last_seen() -> None:
    snap = healthy()
    going = replace(snap, pod=replace(snap.pod, state=PodState.STOPPING))
    assert "last seen STOPPING" in outcome(POD, going, Stopping()).farewell


def test_a_pod_that_broke_may_cost() -> None:
    snap = healthy()
    broken = replace(snap, pod=replace(snap.pod, state=PodState.ERROR))
    assert "in ERROR and may cost" in outcome(POD, broken, Stopping()).farewell


def test_a_budget_that_nobody_watches_any_more_is_said() -> None:
    snap = healthy()
    left = outcome(POD, replace(snap, pod=replace(snap.pod, budget=5.0)), Stopping())
    first, second = left.farewell.splitlines()
    assert first.endswith(f"passerelle pod stop {POD}")
    assert second == f"its budget of 5.00 $ is kept only while you watch: passerelle cost {POD} --watch"
