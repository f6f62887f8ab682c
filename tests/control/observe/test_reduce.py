"""The fold of polls into a state: what survives, what ages, what is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap.report import LogLine
from control.observe.reduce import reduce
from control.observe.state import HISTORY_S, State
from control.observe.updates import PodLost, PodSeen, ReportLost, Update
from control.observe.view import snapshot
from tests.control.observe.reports import POD, metrics, seen, service, status, turn

LOST = ReportLost("port", "refused")


def fold(*updates: tuple[float, Update], state: State | None = None) -> State:
    state = state or State()
    for now, update in updates:
        state = reduce(state, update, now, 1_000 + now)
    return state


def line(seq: int, text: str = "hello") -> LogLine:
    return LogLine(seq, 0.0, "engine", "info", text)


def test_a_failed_poll_changes_no_number_but_leaves_a_gap_in_the_chart() -> None:
    state = fold((0, seen(metrics(generation=5))), (1, LOST))
    assert state.report_ok_at == 0
    assert state.samples[-1].counters.generation == 5
    assert (state.lost, state.lost_since) == (LOST, 1)
    assert state.history[-1].kv_usage is None
    assert state.history[-2].kv_usage == 0.5


def test_lost_since_is_when_it_began_and_ends_with_the_next_report() -> None:
    state = fold((0, seen()), (1, LOST), (5, LOST))
    assert state.lost_since == 1
    assert fold((6, seen()), state=state).lost_since is None


def test_a_refused_token_proves_that_the_port_answers() -> None:
    state = fold((3, ReportLost("unauthorized", "HTTP 401")))
    assert state.port_ok_at == 3
    assert fold((3, LOST)).port_ok_at is None


def test_a_provider_that_fails_keeps_the_pod_that_was_known() -> None:
    state = fold((0, PodSeen(POD)), (5, PodLost("timeout")))
    assert state.pod == POD
    assert (state.pod_ok_at, state.pod_error) == (0, "timeout")


def test_progress_is_any_counter_that_grows_or_kv_that_moves() -> None:
    start = fold((0, seen(metrics())))
    assert (start.progress_at, start.first_scrape_at) == (None, 0)
    assert fold((9, seen(metrics())), state=start).progress_at is None
    assert fold((9, seen(metrics(generation=1))), state=start).progress_at == 9
    assert fold((9, seen(metrics(prompt_computed=1))), state=start).progress_at == 9
    assert fold((9, seen(metrics(usage=0.6))), state=start).progress_at == 9


def test_preemptions_survive_a_restart_of_the_engine() -> None:
    state = fold(
        (0, seen(metrics(1, preemptions=4))),
        (1, seen(metrics(1, preemptions=6))),
        (2, seen(metrics(2, preemptions=1))),
    )
    assert state.preemptions == 7
    assert state.history[-1].mark == "engine restart"


def test_another_bridge_process_is_a_mark_on_the_chart() -> None:
    first, second = seen(metrics()), seen(metrics())
    second = replace(second, report=replace(second.report, pid=10))
    state = fold((0, first), (1, second), (2, second))
    assert [point.mark for point in state.history] == ["", "bridge restart", ""]


def test_a_report_without_metrics_says_why_and_keeps_the_old_scrape() -> None:
    state = fold((0, seen(metrics(generation=5))), (1, seen(None, reachable=False)))
    assert (state.scrape_ok_at, state.scrape_error) == (0, "refused")
    assert state.report_ok_at == 1


def test_a_status_that_came_late_is_not_blanked_at_once_and_not_believed_for_ever() -> None:
    first = fold((0, seen(metrics(), status())), (1, seen(metrics(), None)))
    assert first.seen is not None
    assert first.seen.status == status()
    later = fold((4, seen(metrics(), None)), (6, seen(metrics(), None)), state=first)
    assert later.seen is not None
    assert later.seen.status is None


def test_log_lines_come_once_each_and_a_new_supervisor_starts_anew() -> None:
    state = fold(
        (0, seen(None, status(log=(line(0), line(1))))),
        (1, seen(None, status(log=(line(1), line(2))))),
    )
    assert [entry.seq for entry in state.log] == [0, 1, 2]
    assert state.log_next == 2
    state = fold((2, seen(None, status(pid=2, log=(line(0, "new"),)))), state=state)
    assert [entry.text for entry in state.log] == ["new"]


def test_history_is_five_minutes() -> None:
    state = fold(*((float(t), seen(metrics())) for t in range(400)))
    assert state.history[-1].at - state.history[0].at == HISTORY_S


def test_a_turn_has_its_own_rate_from_its_first_second_reading_on() -> None:
    state = fold((0, seen(metrics(), turns=(turn("a", out=10),))), (2, seen(metrics(), turns=(turn("a", out=70),))))
    snap, _ = snapshot(state, 2, 1_002)
    assert snap.agents[0].tok_s == 30


UPDATES = st.one_of(
    st.just(PodSeen(POD)),
    st.just(PodLost("timeout")),
    st.sampled_from((LOST, ReportLost("unauthorized", "no"), ReportLost("bridge", "no"))),
    st.just(seen(None, reachable=False)),
    st.builds(
        lambda start, count, state: seen(
            metrics(float(start), generation=count), status(engine=service(state)), turns=(turn("a"),)
        ),
        st.integers(1, 3),
        st.integers(0, 1000),
        st.sampled_from(("starting", "serving", "backoff", "fatal", "stopping", "stopped")),
    ),
)


@given(st.lists(st.tuples(st.floats(0.01, 30), UPDATES), max_size=40))
def test_any_history_of_polls_gives_a_snapshot_with_no_negative_figure(steps: list[tuple[float, Update]]) -> None:
    now, state = 0.0, State()
    for seconds, update in steps:
        now += seconds
        state = reduce(state, update, now, 5_000 + now)
        snap, state = snapshot(state, now, 5_000 + now)
        engine = snap.engine
        for value in (engine.decode_tok_s, engine.prefill_tok_s, engine.cached_tok_s, snap.pod.cost_accrued):
            assert value is None or value >= 0
        assert all(light.age_s is None or light.age_s >= 0 for light in snap.lights)
        assert len({light.name for light in snap.lights}) == 5
        if snap.pod.cost_accrued is not None:
            assert snap.pod.cost_accrued == pytest.approx(0.74 * (snap.at - 1_000) / 3600)
