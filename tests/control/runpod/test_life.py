"""One more look at a rented pod, in every state and after everything that can have been asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control import cost
from control.models import PodState
from control.runpod import life
from control.runpod.client import PROXY
from control.runpod.life import Record
from control.runpod.wire import Direct, GpuUse, PodAnswer, Runtime, Ssh, rfc3339

T0 = 1_796_000_000.0
NEW = Record("a1", "n", created_at=T0, made_here=True, ours=True, per_hour=0.44)


def answer(status: str, **changes: object) -> PodAnswer:
    values: dict[str, object] = {"id": "a1", "status": status, "cost": 0.44, "gpu": GpuUse("NVIDIA A40", 1)}
    if status == "RUNNING":
        values["runtime"] = Runtime(uptime=5.0)
    return PodAnswer(**(values | changes))  # type: ignore[arg-type]


def state(record: Record, status: str, now: float = T0 + 10, **changes: object) -> PodState:
    return life.observe(record, answer(status, **changes), now, PROXY)[1].state


def test_a_state_that_we_do_not_know_is_unknown_and_costs_as_before() -> None:
    record, _ = life.observe(NEW, answer("RUNNING"), T0 + 10, PROXY)
    after, pod = life.observe(record, answer("HIBERNATED"), T0 + 20, PROXY)
    assert (pod.state, after.spans) == (PodState.UNKNOWN, record.spans)
    assert "HIBERNATED" in pod.note


@pytest.mark.parametrize("status", ["PROVISIONING", "STARTING", "RUNNING"])
def test_what_was_asked_to_stop_is_stopping_until_it_is_exited(status: str) -> None:
    asked = life.stop_asked(NEW, T0 + 5)
    assert state(asked, status) is PodState.STOPPING
    stopped, pod = life.observe(asked, answer("EXITED", cost=0.0), T0 + 20, PROXY)
    assert pod.state is PodState.EXITED
    assert stopped.stop_asked_at is None
    assert state(stopped, "RUNNING", T0 + 30) is PodState.RUNNING, "started in the console since"


def test_exited_just_after_a_start_is_the_run_before() -> None:
    stopped, _ = life.observe(NEW, answer("EXITED"), T0 + 5, PROXY)
    asked = life.start_asked(stopped, T0 + 10)
    assert state(asked, "EXITED", T0 + 30) is PodState.STARTING
    assert state(asked, "EXITED", T0 + 100) is PodState.EXITED, "it did not start after all"
    assert state(life.stop_asked(asked, T0 + 12), "EXITED", T0 + 30) is PodState.EXITED


def test_a_pod_that_we_made_costs_since_it_was_asked_for_not_since_its_container_runs() -> None:
    record, _ = life.observe(NEW, answer("PROVISIONING"), T0 + 5, PROXY)
    record, _ = life.observe(record, answer("RUNNING", started_at=rfc3339(T0 + 120)), T0 + 130, PROXY)
    record, _ = life.observe(record, answer("RUNNING", started_at=rfc3339(T0 + 120)), T0 + 3600, PROXY)
    assert len(record.spans) == 1
    assert cost.spent(record.spans, T0 + 3600).total == pytest.approx(0.44)


def test_another_start_than_the_known_one_is_another_run() -> None:
    record, _ = life.observe(NEW, answer("RUNNING", started_at=rfc3339(T0)), T0 + 100, PROXY)
    record, pod = life.observe(record, answer("RUNNING", started_at=rfc3339(T0 + 1000)), T0 + 1100, PROXY)
    assert [span.open for span in record.spans] == [False, True]
    assert pod.started_at == T0 + 1000
    assert record.spans[0].unsure == pytest.approx(0.44 * 900 / 3600)


def test_a_price_that_is_missing_is_the_last_one_known() -> None:
    record, pod = life.observe(NEW, answer("RUNNING", cost=None), T0 + 10, PROXY)
    assert (pod.price.per_hour, record.spans[0].per_hour) == (0.44, 0.44)


def test_without_a_gpu_it_runs_and_says_so() -> None:
    for gpu in (None, GpuUse("NVIDIA A40", 0)):
        _, pod = life.observe(replace(NEW, gpu="NVIDIA A40"), answer("RUNNING", gpu=gpu), T0 + 10, PROXY)
        assert pod.state is PodState.RUNNING
        assert "without a GPU" in pod.note
        assert pod.gpu == "NVIDIA A40"


def test_missing_is_a_question_before_it_is_an_answer() -> None:
    young, pod = life.missing(NEW, T0 + 60, PROXY)
    assert pod.state is PodState.STARTING
    old = replace(NEW, missing_since=None, missing_looks=0)
    states = []
    for seconds in (200, 205, 225):
        old, pod = life.missing(old, T0 + seconds, PROXY)
        states.append(pod.state)
    assert states == [PodState.UNKNOWN, PodState.UNKNOWN, PodState.TERMINATED]
    back, _ = life.observe(young, answer("RUNNING"), T0 + 300, PROXY)
    assert (back.missing_since, back.missing_looks) == (None, 0)


def test_the_addresses_stay_while_runpod_does_not_answer_or_does_not_know_it() -> None:
    """SSH and the bridge may well be there while RunPod's API is down."""
    ssh = Ssh(Direct("203.0.113.7", 30_022, "root"))
    up, pod = life.observe(NEW, answer("RUNNING", ssh=ssh), T0 + 500, PROXY)
    assert pod.ssh is not None
    unheard = life.unheard(up, "HTTP 502", PROXY)
    assert (unheard.state, unheard.note, unheard.ssh, unheard.url) == (PodState.UNKNOWN, "HTTP 502", pod.ssh, pod.url)
    _, doubted = life.missing(up, T0 + 510, PROXY)
    assert (doubted.state, doubted.ssh, doubted.url) == (PodState.UNKNOWN, pod.ssh, pod.url)
    restarted = life.unheard(life.start_asked(up, T0 + 520), "HTTP 502", PROXY)
    assert restarted.ssh is None, "another run has another port"


def test_missing_after_it_was_removed_needs_two_looks_and_no_waiting() -> None:
    record = life.terminate_asked(NEW, T0 + 10)
    record, first = life.missing(record, T0 + 11, PROXY)
    record, second = life.missing(record, T0 + 12, PROXY)
    assert (first.state, second.state, second.note) == (PodState.UNKNOWN, PodState.TERMINATED, "")


STATUS = st.sampled_from(["PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED", "NEW", ""])
EVENT = st.one_of(
    st.tuples(
        st.just("look"), STATUS, st.one_of(st.none(), st.floats(0, 9)), st.one_of(st.none(), st.integers(0, 999))
    ),
    st.tuples(st.sampled_from(["stop", "start", "terminate", "missing"]), st.just(""), st.none(), st.none()),
)


@given(st.lists(st.tuples(EVENT, st.floats(0, 500)), max_size=20))
def test_whatever_comes_in_whatever_order(
    events: list[tuple[tuple[str, str, float | None, int | None], float]],
) -> None:
    record, now, paid = NEW, T0, 0.0
    for (kind, status, price, started), step in events:
        now += step
        if kind == "look":
            began = None if started is None else rfc3339(T0 + started)
            record, pod = life.observe(record, answer(status, cost=price, started_at=began), now, PROXY)
            assert pod.state is not PodState.EXITED or status == "EXITED", "EXITED is said only when RunPod says so"
            assert pod.spans == record.spans
        elif kind == "missing":
            record, pod = life.missing(record, now, PROXY)
            assert pod.state in (PodState.STARTING, PodState.UNKNOWN, PodState.TERMINATED)
        else:
            asked = {"stop": life.stop_asked, "start": life.start_asked, "terminate": life.terminate_asked}[kind]
            record = asked(record, now)
        counted = sum((span.seen - span.start) * span.per_hour for span in record.spans)
        assert counted >= paid - 1e-6, "what was spent stays spent"
        assert not any(later.start < earlier.seen for earlier, later in pairwise(record.spans))
        paid = counted
