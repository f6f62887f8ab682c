"""A fleet's moment from its parts: rows, sums that know no zero for unknown, and the one-word verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control.fleet.models import Fleet, FrontStatus, PlaceState, ProgramStatus, ReplicaStatus
from control.fleet.text import lines
from control.fleet.view import FleetSnapshot, snapshot
from control.models import PodId
from control.observe.snapshot import Finding, Snapshot, Totals, Verdict, Waiting
from control.observe.state import State
from control.observe.view import snapshot as pod_snapshot

FLEET = Fleet("night", 0.0, (PodId("a"), PodId("b")), "127.0.0.1", 8080)
BLANK = pod_snapshot(State(), 0.0, 0.0)[0]


def replica(verdict: Verdict = Verdict.HEALTHY, **engine: object) -> Snapshot:
    at_work = {
        "state": "serving", "running": 3, "waiting": Waiting(1, 0), "kv_usage": 0.5, "decode_tok_s": 100.0,
        "prefill_tok_s": 2000.0, "cache_hit_rate": 0.9, "totals": Totals(1, 2, 3, 0, 1000, 850),
    }  # fmt: skip
    return replace(
        BLANK,
        verdict=verdict,
        engine=replace(BLANK.engine, **(at_work | engine)),  # type: ignore[arg-type]
        pod=replace(BLANK.pod, state="RUNNING", cost_per_hour=0.5, cost_accrued=0.25),
    )


def front(first: PlaceState = "serving", second: PlaceState = "serving", **changes: object) -> FrontStatus:
    programs = (ProgramStatus("bridge", True, 0, None), ProgramStatus("router", True, 1, "exit code 1"))
    rows = (ReplicaStatus("a", first, "" if first == "serving" else "its engine is loading", 2, 5, 1, True),
            ReplicaStatus("b", second, "" if second == "serving" else "silent", 1, 4, 0, True))  # fmt: skip
    return replace(FrontStatus(7, 60.0, programs, rows, True), **changes)  # type: ignore[arg-type]


def moment(said: FrontStatus | None, *seen: Snapshot) -> FleetSnapshot:
    return snapshot(1.0, FLEET, said, "it does not answer", seen or (replica(), replica()))


def test_rows_and_their_sums() -> None:
    snap = moment(front())
    assert [(row.id, row.running, row.waiting, row.conversations, row.moved) for row in snap.replicas] == [
        ("a", 3, 1, 5, 1),
        ("b", 3, 1, 4, 0),
    ]
    assert {row.cache_hit_rate_ever for row in snap.replicas} == {0.85}
    assert (snap.running, snap.waiting, snap.decode_tok_s, snap.prefill_tok_s) == (6, 2, 200.0, 4000.0)
    assert (snap.cost_per_hour, snap.cost_accrued) == (1.0, 0.5)
    assert snap.verdict is Verdict.HEALTHY
    assert snap.problems == ()


def test_what_is_not_known_is_no_zero() -> None:
    snap = moment(None, BLANK, BLANK)
    assert (snap.running, snap.decode_tok_s, snap.cost_per_hour) == (None, None, None)
    assert {(row.turns, row.takes, row.cache_hit_rate_ever) for row in snap.replicas} == {(None, None, None)}
    assert moment(front(), replica(), BLANK).running == 3


@pytest.mark.parametrize(
    ("said", "seen", "verdict"),
    [
        (front(), (replica(), replica(Verdict.WARNING)), Verdict.WARNING),
        (front(), (replica(), replica(Verdict.UNREACHABLE)), Verdict.WARNING),
        (front(), (replica(), replica(Verdict.UNKNOWN)), Verdict.WARNING),
        (front("waiting"), (replica(), replica()), Verdict.WARNING),
        (front("waiting", "down"), (replica(), replica()), Verdict.CRITICAL),
        (front(router_answers=False), (replica(), replica()), Verdict.WARNING),
        (None, (replica(), replica()), Verdict.UNREACHABLE),
        (None, (replica(Verdict.STOPPED), replica(Verdict.STOPPED)), Verdict.STOPPED),
        (None, (replica(Verdict.STOPPED), replica()), Verdict.UNREACHABLE),
    ],
)
def test_the_verdict(said: FrontStatus | None, seen: tuple[Snapshot, ...], verdict: Verdict) -> None:
    assert moment(said, *seen).verdict is verdict


def test_a_problem_says_what_it_is() -> None:
    assert moment(None).problems == ("it does not answer",)
    stopped = replace(front(), programs=(ProgramStatus("bridge", False, 3, "exit code 1"),))
    assert moment(stopped).problems == ("its bridge does not run (exit code 1)",)
    assert moment(front("waiting")).problems == ("a takes no turns: its engine is loading",)
    assert "no replica serves" in moment(front("waiting", "down")).problems
    assert "router does not answer" in moment(front(router_answers=False)).problems[0]
    new = replace(front(), replicas=tuple(replace(one, routed=one.id == "a") for one in front().replicas))
    assert moment(new).problems == ("b serves, and the router has not taken it yet",)


def test_the_text_has_every_row_and_a_dash_for_what_is_not_known() -> None:
    finding = Finding("kv-capacity", "warning", "t", "d", "l", "#x")
    said = lines(moment(front("waiting"), replace(replica(), findings=(finding,)), BLANK))
    assert said[0].startswith("WARNING  fleet night  http://127.0.0.1:8080")
    rows = {line.split()[0]: line.split() for line in said if line.startswith(("  a ", "  b "))}
    assert rows["a"][1:8] == ["waiting", "serving", "3", "1", "50%", "90%", "85%"]
    assert rows["a"][-1] == "kv-capacity"
    assert rows["b"][2:6] == ["unknown", "–", "–", "–"]
    assert any("router 1" in line for line in said)
    assert lines(moment(None))[1].strip() == "it does not answer"
