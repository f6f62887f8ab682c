"""Before the first poll nothing is claimed: no number, no light, no state."""

from __future__ import annotations

import dataclasses

from console.blank import blank
from control.models import PodId, PodState
from control.observe.snapshot import Verdict


def test_nothing_is_known() -> None:
    snap = blank(PodId("p"))
    assert (snap.verdict, snap.pod.state, snap.pod.id) == (Verdict.UNKNOWN, PodState.UNKNOWN, "p")
    assert {light.state for light in snap.lights} == {"unknown"}
    figures = [*dataclasses.astuple(snap.bridge), snap.engine.running, snap.engine.kv_usage, snap.pod.cost_accrued]
    assert set(figures) == {None}
