"""What a Snapshot shows, and what it stops showing once it is old."""

from __future__ import annotations

from dataclasses import replace

from bootstrap.report import Gpu, Host
from control.models import PodState
from control.observe.reduce import reduce
from control.observe.snapshot import Snapshot, Verdict
from control.observe.state import State
from control.observe.updates import PodSeen, ReportLost, Update
from control.observe.view import BELIEVED_S, snapshot
from tests.control.observe.reports import POD, metrics, seen, service, status, turn


def look(*updates: tuple[float, Update], at: float | None = None) -> Snapshot:
    """Fold, and look after each: conditions are held from look to look."""
    state, now = State(), 0.0
    for now, update in updates:
        state = reduce(state, update, now, 2_000 + now)
        _, state = snapshot(state, now, 2_000 + now)
    moment = now if at is None else at
    return snapshot(state, moment, 2_000 + moment)[0]


UP = (0.0, PodSeen(POD))


def test_nothing_polled_is_unknown_and_all_dashes() -> None:
    snap = look()
    assert snap.verdict is Verdict.UNKNOWN
    assert snap.pod.state == "UNKNOWN"
    assert snap.engine.running is None
    assert snap.pod.cost_accrued is None
    assert {light.state for light in snap.lights} == {"unknown"}


def test_a_healthy_pod() -> None:
    snap = look(UP, (1, seen(metrics(), status())), (2, seen(metrics(generation=100), status())))
    assert snap.verdict is Verdict.HEALTHY
    assert snap.findings == ()
    assert snap.engine.state == "serving"
    assert snap.engine.decode_tok_s == 100
    assert snap.config_serial == 3
    assert snap.pod.gpu_absent
    assert {light.name: light.state for light in snap.lights} == {
        "provider": "good",
        "port": "good",
        "bridge": "good",
        "scrape": "good",
        "tokens": "good",
    }


def test_the_gpu_and_its_cuda_come_from_the_pod() -> None:
    host = Host("580.95", "13.0", (Gpu(0, "NVIDIA H200", 1.0, 2.0, 97.0, 612.0, 71.0),))
    snap = look(UP, (1, seen(metrics(), status(host=host))))
    assert (snap.pod.cuda, snap.pod.driver, snap.pod.gpu, snap.pod.gpu_absent) == (
        "13.0",
        "580.95",
        "NVIDIA H200",
        False,
    )


def test_old_figures_are_dashes_and_the_light_keeps_the_age() -> None:
    lost = ReportLost("port", "refused")
    young = look(UP, (1, seen(metrics(), status())), (4, lost))
    assert young.engine.running == 1
    old = look(UP, (1, seen(metrics(), status())), (4, lost), at=1 + BELIEVED_S + 1)
    assert old.engine.running is None
    assert old.bridge.turns is None
    assert old.agents == ()
    assert next(light.age_s for light in old.lights if light.name == "bridge") == BELIEVED_S + 1


def test_unreachable_is_never_called_stopped() -> None:
    lost = ReportLost("port", "refused")
    snap = look((0, PodSeen(POD)), (60, lost), (63, lost))
    assert snap.verdict is Verdict.UNREACHABLE
    assert snap.pod.state == "RUNNING"
    assert snap.engine.state == "unknown"


def test_stopped_is_the_providers_word() -> None:
    exited = replace(POD, state=PodState.EXITED, started_at=None, billed_s=3600.0, ended_at=1_500.0)
    snap = look(UP, (1, seen(metrics(), status())), (2, PodSeen(exited)), (3, ReportLost("port", "refused")))
    assert snap.verdict is Verdict.STOPPED
    assert snap.findings == ()
    assert snap.engine.state == "stopped"
    assert snap.engine.running is None
    assert snap.pod.cost_accrued == 0.74
    assert snap.pod.uptime_s is None


def test_an_engine_that_the_supervisor_calls_serving_but_does_not_answer_is_down() -> None:
    down = seen(None, status(), reachable=False)
    snap = look(UP, (1, down), (5, down))
    assert snap.engine.state == "down"
    assert snap.verdict is Verdict.CRITICAL
    assert snap.findings[0].id == "engine-down"


def test_the_supervisors_word_on_a_dead_engine_and_the_next_start() -> None:
    dead = service("backoff", last_exit="killed by SIGKILL", next_start_s=4.0)
    snap = look(
        UP, (1, seen(None, status(engine=dead), reachable=False)), (4, seen(None, status(engine=dead), reachable=False))
    )
    assert snap.engine.state == "backoff"
    assert "killed by SIGKILL" in snap.findings[0].detail
    assert "4 s" in snap.findings[0].detail


def test_the_simulated_engine_is_said_to_be_one() -> None:
    update = seen(metrics(), status())
    simulated = replace(
        update, report=replace(update.report, engine=replace(update.report.engine, version="0.32.0+simulated"))
    )
    assert look(UP, (1, simulated)).engine.simulated is True
    assert look(UP, (1, update)).engine.simulated is False


LATE = seen(None, status(), reachable=False, elapsed=0.8)


def test_an_engine_that_answers_late_is_not_down_and_keeps_its_figures_for_a_while() -> None:
    good = seen(metrics(), status())
    snap = look(UP, (1, good), (2, LATE), (3, LATE))
    assert (snap.engine.state, snap.engine.running, snap.engine.version) == ("serving", 1, "0.32.0")
    assert snap.verdict is Verdict.HEALTHY
    late = look(UP, (1, good), *((float(n), LATE) for n in range(2, 12)))
    assert [finding.id for finding in late.findings] == ["scrape-failing"]
    assert late.verdict is Verdict.WARNING
    gone = look(UP, (1, good), *((float(n), LATE) for n in range(2, 22)))
    assert (gone.engine.state, gone.engine.running) == ("down", None)


def test_an_engine_whose_tokens_flow_is_not_down_however_long_its_metrics_fail() -> None:
    flowing = seen(None, status(), (turn("a", last=0.2),), reachable=False)
    snap = look(UP, (1, seen(metrics(), status())), *((float(n), flowing) for n in range(2, 30)))
    assert snap.engine.state == "serving"
    assert snap.engine.running is None
    assert [finding.id for finding in snap.findings] == ["scrape-failing"]


def test_an_engine_that_refuses_connections_is_down_at_once_and_its_figures_are_gone() -> None:
    refused = seen(None, status(), reachable=False)
    snap = look(UP, (1, seen(metrics(), status())), (2, refused))
    assert (snap.engine.state, snap.engine.running, snap.engine.kv_usage) == ("down", None, None)
