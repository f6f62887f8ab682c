"""The seam to the control plane: what plays a pod in tests is a Session, and an Outcome is fixed."""

from __future__ import annotations

import dataclasses

import pytest

from console.session import Outcome, Session
from tests.console.snapshots import POD, ScriptedSession, healthy


async def test_the_scripted_session_is_one() -> None:
    session: Session = ScriptedSession([healthy()])
    assert session.pod_id == POD
    assert [snap async for snap in session.snapshots()] == [healthy()]


def test_an_outcome_does_not_change() -> None:
    outcome = Outcome(left=True, stopped=False, farewell="bye")
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.stopped = True  # type: ignore[misc]
