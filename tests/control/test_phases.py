"""How long a start takes yet, from how long it took before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.phases import LIMIT_S, ORDER, Phase, Progress, clock, left_s, line, stuck

BEFORE = {
    "machine": (10.0,),
    "container": (20.0,),
    "image": (100.0, 300.0, 200.0),
    "bridge": (30.0,),
    "engine": (90.0,),
}


def test_medians_of_what_is_to_come() -> None:
    assert left_s(Progress(0.0, "image", 40.0), BEFORE, 60.0) == pytest.approx(180 + 30 + 90)
    assert left_s(Progress(0.0, "image", 40.0), BEFORE, 900.0) == pytest.approx(0 + 30 + 90)
    assert left_s(Progress(0.0, "serving", 40.0), BEFORE, 60.0) == 0


def test_unknown_until_every_phase_to_come_was_seen_once() -> None:
    assert left_s(Progress(0.0, "bridge", 0.0), {"bridge": (1.0,)}, 0.0) is None
    assert left_s(Progress(0.0, "engine", 0.0), {"engine": (5.0,)}, 2.0) == 3.0


def test_a_line() -> None:
    progress = Progress(0.0, "machine", 0.0).see("image", 30.0)
    assert line(progress, BEFORE, 95.0) == "1:35  the image is being pulled, about 4:15 to go"
    assert line(progress, {}, 95.0, "no container yet") == "1:35  no container yet"
    assert line(progress.see("serving", 100.0), BEFORE, 100.0) == "1:40  serving"
    assert progress.took == (("machine", 30.0),)


def test_a_phase_is_stuck_by_its_own_limit() -> None:
    progress = Progress(0.0, "machine", 0.0).see("bridge", 1e6)
    assert not stuck(progress, 1e6 + LIMIT_S["bridge"])
    assert stuck(progress, 1e6 + LIMIT_S["bridge"] + 1)
    assert not stuck(progress.see("serving", 2e6), 9e9)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (-3, "0:00"), (65, "1:05"), (3723, "1:02:03")])
def test_times(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@given(st.lists(st.tuples(st.sampled_from(ORDER), st.floats(0, 1000)), min_size=1, max_size=20))
def test_the_phases_fill_the_time_without_a_hole(seen: list[tuple[Phase, float]]) -> None:
    progress, now = Progress(0.0, seen[0][0], 0.0), 0.0
    for phase, step in seen:
        now += step
        progress = progress.see(phase, now)
    assert sum(took for _, took in progress.took) + now - progress.since == pytest.approx(now)
