"""The bottom lines, for every phase of a stop and of a bridge's restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.restarting import LATE_S, Restarting, Step
from console.rows import Rows, cells, text
from console.stopping import Phase, Stopping
from console.widgets.bar import bar
from control.models import PodState
from tests.console.snapshots import AT, bridge, capacity, healthy, stopped


def said(stopping: Stopping, now: float = 100.0, width: int = 200) -> str:
    rows = bar(stopping, Restarting(), capacity(), now, width)
    return "\n".join(text(row).strip() for row in rows)


def restart(state: Restarting, now: float = 100.0) -> str:
    return "\n".join(text(row).strip() for row in bar(Stopping(), state, healthy(), now, 200))


def test_nothing_to_say() -> None:
    assert bar(Stopping(), Restarting(), healthy(), 0.0, 80) == ()


@pytest.mark.parametrize(("now", "left"), [(100.0, 3), (100.1, 3), (101.0, 2), (102.5, 1), (103.4, 1)])
def test_the_countdown(now: float, left: int) -> None:
    line = said(Stopping(Phase.COUNTDOWN, since=100.0), now)
    assert line == (
        f"■ STOPPING in {left} s  · 6 streams in flight will be cut · spent 3.78 $ · Esc keeps it, Enter stops now"
    )


@pytest.mark.parametrize(
    ("turns", "words"), [(None, "not known"), (0, "no stream in flight"), (1, "1 stream in flight will be cut")]
)
def test_what_it_would_cut(turns: int | None, words: str) -> None:
    snap = replace(healthy(), bridge=bridge(turns=turns))
    rows = bar(Stopping(Phase.COUNTDOWN, since=100.0), Restarting(), snap, 100.0, 200)
    assert words in text(rows[0])


def test_sent_with_its_age() -> None:
    assert said(Stopping(Phase.WAITING, since=99.9, pod_state=PodState.RUNNING)) == (
        "▲ stop sent 0.1 s ago · waiting for the provider · it says RUNNING"
    )
    assert "sending stop" in said(Stopping(Phase.SENDING, since=99.9))


def test_a_stop_that_did_not_take_is_red() -> None:
    state = Stopping(Phase.OVERDUE, since=30.0, pod_state=PodState.RUNNING)
    rows = bar(state, Restarting(), healthy(), 100.0, 200)
    assert rows[0][0] == ("bad", "■ the stop did not take: sent 70 s ago, still not EXITED")
    assert "s tries again" in text(rows[0])


def test_a_failed_call_says_its_words_and_its_remedy() -> None:
    line = said(Stopping(Phase.STOP_FAILED, message="the API says 500", remedy="stop it on the web page"))
    assert line.startswith("■ stop failed: the API says 500 · stop it on the web page · s tries again")
    assert "start failed: no" in said(Stopping(Phase.START_FAILED, message="no"))


def test_exited() -> None:
    done = Stopping(Phase.EXITED, pod_state=PodState.EXITED, verified_at=AT)
    (row,) = bar(done, Restarting(), stopped(), 0.0, 200)
    assert text(row).startswith("● EXITED, verified ")
    assert text(row).endswith("compute 0 $/h · disk 0.02 $/day · r start again · q leave")
    gone = replace(done, pod_state=PodState.TERMINATED)
    assert "start again" not in said(gone)
    assert "TERMINATED, verified" in said(gone)


@pytest.mark.parametrize("width", [58, 78, 118])
@pytest.mark.parametrize("phase", Phase)
def test_it_wraps_between_its_parts(phase: Phase, width: int) -> None:
    state = Stopping(phase, since=90.0, verified_at=AT, message="m" * 200, remedy="r" * 90)
    rows: Rows = bar(state, Restarting(), healthy(), 100.0, width)
    assert all(cells(row) <= width for row in rows)


def test_the_bridge() -> None:
    assert restart(Restarting(Step.ASKED, since=99.0)) == "▲ bridge restart asked, 1.0 s · no stream is cut"
    assert "accepted" in restart(Restarting(Step.ACCEPTED, since=99.0))
    assert "■ bridge not back 30 s" in restart(Restarting(Step.ACCEPTED, since=100.0 - LATE_S))
    assert restart(Restarting(Step.BACK, took_s=2.4)) == "● bridge is back after 2.4 s · no stream was cut"
    assert "■ bridge restart failed: 401 · b tries again" in restart(Restarting(Step.FAILED, message="401"))


def test_an_old_bridge_that_still_drains_is_said() -> None:
    snap = replace(healthy(), bridge=bridge(draining=2))
    (row,) = bar(Stopping(), Restarting(Step.BACK), snap, 0.0, 200)
    assert "2 old ones still finishing streams" in text(row)


def test_the_stop_comes_first() -> None:
    rows = bar(Stopping(Phase.WAITING), Restarting(Step.ASKED), healthy(), 0.0, 200)
    assert "bridge" not in text(rows[0])
