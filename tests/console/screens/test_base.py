"""Keys are shown when they would do something, and only then."""

from __future__ import annotations

import pytest

from console.screens.base import PodScreen
from console.stopping import Phase, Stopping
from control.models import PodState

SHOWN: dict[Phase, set[str]] = {
    Phase.READY: {"stop_pod", "restart_bridge"},
    Phase.COUNTDOWN: {"stop_now", "keep"},
    Phase.SENDING: set(),
    Phase.WAITING: set(),
    Phase.OVERDUE: {"stop_pod", "put_away"},
    Phase.STOP_FAILED: {"stop_pod", "put_away"},
    Phase.EXITED: {"start_pod"},
    Phase.STARTING: set(),
    Phase.START_FAILED: {"start_pod", "put_away"},
}
ACTIONS = ("stop_pod", "stop_now", "keep", "put_away", "start_pod", "restart_bridge")


@pytest.mark.parametrize("phase", Phase)
def test_actions_by_phase(phase: Phase) -> None:
    screen = PodScreen()
    screen.set_reactive(PodScreen.stopping, Stopping(phase, pod_state=PodState.EXITED))
    assert {action for action in ACTIONS if screen.check_action(action, ())} == SHOWN[phase]
    assert screen.check_action("leave", ())


def test_a_terminated_pod_cannot_be_started() -> None:
    screen = PodScreen()
    screen.set_reactive(PodScreen.stopping, Stopping(Phase.EXITED, pod_state=PodState.TERMINATED))
    assert not screen.check_action("start_pod", ())
