"""The seam to the control plane: what plays a pod in tests is a Session, and an Outcome is fixed."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from console.session import Outcome, Session
from control.observe.session import PodSession
from control.observe.snapshot import Snapshot
from tests.console.snapshots import POD, ScriptedSession, healthy


async def test_the_scripted_session_is_one() -> None:
    session: Session = ScriptedSession([healthy()])
    assert session.pod_id == POD
    seen: list[Snapshot] = []
    await session.run(seen.append)
    assert seen == [healthy()]


def test_an_outcome_does_not_change() -> None:
    outcome = Outcome(left=True, stopped=False, farewell="bye")
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.stopped = True  # type: ignore[misc]


def as_session(session: PodSession) -> Session:
    """For mypy, which refuses this when the control plane's own session is no longer one."""
    return session


@pytest.mark.parametrize("name", ["run", "stop", "start", "restart_bridge"])
def test_the_control_planes_session_has_what_the_screen_calls(name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(PodSession, name))
