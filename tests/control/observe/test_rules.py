"""Each rule named right by what causes it, held as long as it says, and a healthy run named not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.report import Boot, Fault, Phase, Swap
from bridge.report import Turn
from control.models import PodState
from control.observe import rules, scrape
from control.observe.reduce import reduce
from control.observe.scrape import EngineMetrics
from control.observe.snapshot import Snapshot, Verdict
from control.observe.state import State
from control.observe.updates import PodLost, PodSeen, ReportLost, ReportSeen, Update
from control.observe.view import snapshot
from tests.control.observe.reports import POD, agent, metrics, seen, service, status, turn
from tests.data import series

DOCS = Path(__file__).parents[3] / "docs" / "diagnosis.md"


def watch(updates: list[Update], every: float = 1.0) -> list[Snapshot]:
    """The snapshots of one update per `every` seconds, after a pod that has been up for long."""
    state = reduce(State(), PodSeen(POD), 0.0, 5_000.0)
    snaps = []
    for index, update in enumerate(updates, 1):
        now = index * every
        state = reduce(state, update, now, 5_000 + now)
        snap, state = snapshot(state, now, 5_000 + now)
        snaps.append(snap)
    return snaps


def ids(snap: Snapshot) -> list[str]:
    return [finding.id for finding in snap.findings]


def loaded(running: int, waiting: int, **changes: float) -> EngineMetrics:
    return replace(metrics(**changes), running=running, waiting=waiting, waiting_capacity=waiting)


def turns(count: int) -> tuple[Turn, ...]:
    return tuple(turn(f"t{n}") for n in range(count))


def recorded(text: str) -> ReportSeen:
    """A scrape, and the bridge's turns to it: those that wait and the one that is read have no token yet."""
    found = scrape.parse(text)
    running, waiting = found.running or 0, found.waiting or 0
    reading = 1 if waiting and (found.kv_usage or 0) < 0.4 else 0
    decoding = [turn(f"d{n}", "text") for n in range(running - reading)]
    pending = [turn(f"p{n}", "pending", age=50.0 - n) for n in range(reading + waiting)]
    return seen(found, status(), (*decoding, *pending))


def test_a_healthy_recorded_run_on_an_h200_has_no_finding_but_its_first_prefills() -> None:
    snaps = watch([recorded(text) for text in series.h200()])
    assert {name for snap in snaps for name in ids(snap)} == {"prefill-queue"}
    assert {name for snap in snaps[20:] for name in ids(snap)} == set(), "later nothing waits in this run"
    assert {snap.verdict for snap in snaps} == {Verdict.HEALTHY}


def test_capacity_waits_recorded_on_a_cpu_are_named_with_their_numbers() -> None:
    snaps = watch([recorded(text) for text in series.cpu()])
    named = [snap for snap in snaps if "kv-capacity" in ids(snap)]
    assert len(named) > 20
    for snap in named:
        capacity, running = snap.engine.waiting.capacity, snap.engine.running
        assert capacity is not None
        assert running is not None
        assert f"{capacity} of {capacity + running} requests wait" in snap.findings[0].detail


def test_a_prompt_that_does_not_fit_waits_for_kv_far_below_full() -> None:
    """Six prompts of 190 k on a real H200 waited at 66 to 81 % usage."""
    big = replace(turn("w", "pending"), session="w", input_tokens=None)
    memory = replace(agent("w"), input_tokens=190_000)
    scraped = replace(loaded(1, 1, usage=0.81), kv_tokens=750_064)
    snap = watch([seen(scraped, status(), (turn("r", "pending", age=60), big), (memory,))] * 4)[-1]
    assert ids(snap) == ["kv-capacity"]
    assert "the next needs about 190 k tokens, 143 k are free (KV 81%)" in snap.findings[0].detail


def test_waiting_behind_a_prefill_is_not_called_a_full_cache() -> None:
    pending = tuple(turn(f"p{n}", "pending", age=60.0 - n) for n in range(6))
    snap = watch([seen(replace(loaded(1, 5, usage=n / 100), kv_tokens=750_064), status(), pending) for n in range(9)])[
        -1
    ]
    assert ids(snap) == ["prefill-queue"]
    assert "5 of 6 requests wait behind 1 that the engine reads" in snap.findings[0].detail
    assert snap.verdict is Verdict.HEALTHY


def test_a_cause_does_not_flap_while_requests_wait() -> None:
    """The cache breathes around the size of the next prompt while its neighbours are read: one finding, not two."""
    reading = (turn("r", "pending", age=60), turn("w", "pending", age=5))
    memory = (replace(agent("w"), input_tokens=90_000),)
    updates: list[Update] = [
        seen(replace(loaded(1, 1, usage=usage, generation=n), kv_tokens=420_000), status(), reading, memory)
        for n, usage in enumerate([0.74] * 2 + [0.85] * 3 + [0.74, 0.86, 0.74, 0.74])
    ]
    updates.append(seen(replace(loaded(1, 0, generation=99), kv_tokens=420_000), status(), reading, memory))
    named = [ids(snap) for snap in watch(updates)]
    assert named[0] == []
    assert named[4:9] == [["kv-capacity"]] * 5
    assert named[9] == []


def test_a_cause_that_is_gone_is_not_said_with_numbers_against_it() -> None:
    reading = (turn("r", "pending", age=60), turn("w", "pending", age=5))
    memory = (replace(agent("w"), input_tokens=88_000),)
    updates: list[Update] = [
        seen(replace(loaded(1, 1, usage=usage, generation=n), kv_tokens=420_000), status(), reading, memory)
        for n, usage in enumerate([0.85] * 3 + [0.36] * 2)
    ]
    named = [ids(snap) for snap in watch(updates)]
    assert named[2] == ["kv-capacity"]
    assert named[3:] == [["prefill-queue"], ["prefill-queue"]]


def test_the_cap_on_sequences_is_named_as_such() -> None:
    capped = status(engine=service(command=("vllm", "serve", "m", "--max-num-seqs", "4")))
    snap = watch([seen(loaded(4, 2, generation=n), capped, turns(6)) for n in range(4)])[-1]
    assert ids(snap) == ["sequence-cap"]


def test_a_wait_is_named_within_three_seconds() -> None:
    snaps = watch([seen(loaded(3, 2, generation=n), status(), turns(5)) for n in range(3)])
    assert "kv-capacity" in ids(snaps[2])
    assert "2 of 5 requests wait" in snaps[2].findings[0].detail


@pytest.mark.parametrize(
    ("kind", "name"),
    [("unauthorized", "wrong-token"), ("port", "pod-unreachable"), ("bridge", "bridge-unreachable")],
)
def test_no_report_is_named_by_what_answers(kind: str, name: str) -> None:
    lost = ReportLost(kind, "HTTP 401" if kind == "unauthorized" else "refused")  # type: ignore[arg-type]
    assert ids(watch([lost] * 4)[-1]) == [name]


def test_a_pod_that_has_just_begun_is_not_called_unreachable() -> None:
    state = reduce(State(), PodSeen(replace(POD, started_at=4_990.0)), 0.0, 5_000.0)
    for now in (1.0, 4.0, 9.0):
        state = reduce(state, ReportLost("port", "refused"), now, 5_000 + now)
        snap, state = snapshot(state, now, 5_000 + now)
    assert ids(snap) == []


def test_a_frozen_engine_is_named_though_it_answers() -> None:
    frozen: list[Update] = [seen(loaded(2, 0, generation=9), status(), turns(2))] * 70
    snaps = watch(frozen)
    assert "engine-frozen" not in ids(snaps[30])
    assert ids(snaps[-1])[0] == "engine-frozen"
    assert snaps[-1].lights[4].state == "bad"


def test_a_livelock_is_named_and_is_not_a_capacity_wait_alone() -> None:
    snaps = watch([seen(loaded(0, 6, usage=0.0), status(), turns(6))] * 40)
    assert ids(snaps[-1])[0] == "engine-livelock"


def test_a_long_prefill_is_not_a_frozen_engine() -> None:
    prefilling: list[Update] = [seen(loaded(1, 0, usage=n / 200), status(), turns(1)) for n in range(90)]
    assert ids(watch(prefilling)[-1]) == []


@pytest.mark.parametrize(("state", "name"), [("starting", "engine-starting"), ("fatal", "engine-fatal")])
def test_the_engines_life_as_the_supervisor_tells_it(state: str, name: str) -> None:
    update = seen(None, status(engine=service(state, last_exit="exit code 1")), reachable=False)
    assert ids(watch([update] * 4)[-1]) == [name]


def test_a_leak_is_named_when_it_lasts() -> None:
    leak: list[Update] = [seen(metrics(generation=n), status(), turns(1), orphans=2) for n in range(13)]
    snaps = watch(leak)
    assert "leaked-upstreams" not in ids(snaps[5])
    assert "leaked-upstreams" in ids(snaps[-1])


def test_requests_from_elsewhere_but_not_while_an_old_bridge_drains() -> None:
    def updates(draining: int) -> list[Update]:
        bridge = service(draining=draining)
        return [seen(loaded(3, 0, generation=n), status(bridge=bridge), turns(1)) for n in range(20)]

    assert "orphaned-requests" in ids(watch(updates(0))[-1])
    assert "orphaned-requests" not in ids(watch(updates(1))[-1])


def test_a_refused_config_and_a_silent_provider_are_warnings() -> None:
    refused = seen(metrics(), status(config_error="line 3: unknown key"))
    assert "line 3" in watch([refused])[-1].findings[0].detail
    good: ReportSeen = seen(metrics(), status())
    snaps = watch([good, *([PodLost("timeout")] * 12)])
    assert ids(snaps[-1]) == ["provider-unreachable"]


ON_ITS_WAY = {
    PodState.STARTING: ("pod-starting", Verdict.WARNING),
    PodState.STOPPING: ("pod-stopping", Verdict.WARNING),
    PodState.ERROR: ("pod-error", Verdict.CRITICAL),
    PodState.UNKNOWN: ("pod-unknown", Verdict.WARNING),
}


@pytest.mark.parametrize("state", ON_ITS_WAY)
def test_what_the_provider_says_is_the_finding_and_silence_of_the_rest_is_none(state: PodState) -> None:
    name, verdict = ON_ITS_WAY[state]
    there = PodSeen(replace(POD, state=state, note="as it says"))
    last = watch([there, *[ReportLost("port", "refused")] * 6])[-1]
    assert last.findings[0].id == name or state is PodState.UNKNOWN
    assert "as it says." in [finding.detail for finding in last.findings]
    if state is PodState.UNKNOWN:
        assert (ids(last), last.verdict) == (["pod-unreachable", "pod-unknown"], Verdict.UNREACHABLE)
    else:
        assert (ids(last), last.verdict) == ([name], verdict)


def test_a_provider_that_does_not_know_it_hides_no_bridge_that_answers() -> None:
    there = PodSeen(replace(POD, state=PodState.UNKNOWN, note="RunPod does not know it"))
    last = watch([there, seen(loaded(1, 0), status(), turns(1))])[-1]
    assert (ids(last), last.engine.state) == (["pod-unknown"], "serving")


def test_a_budget_warns_and_then_is_used_up() -> None:
    for hours, name, verdict in ((5.0, [], Verdict.HEALTHY), (5.9, ["budget-low"], Verdict.WARNING)):
        pod = replace(POD, budget=5.0, started_at=5_000.0 - hours * 3600)
        last = watch([PodSeen(pod), seen(loaded(1, 0), status(), turns(1))])[-1]
        assert (ids(last), last.verdict) == (name, verdict)
    pod = replace(POD, budget=5.0, started_at=5_000.0 - 7 * 3600)
    last = watch([PodSeen(pod), seen(loaded(1, 0), status(), turns(1))])[-1]
    assert (ids(last), last.verdict) == (["budget-gone"], Verdict.CRITICAL)
    assert last.findings[0].detail == "5.18 of 5.00 $ are spent."


def test_a_note_on_a_pod_that_runs_is_no_fault() -> None:
    pod = replace(POD, note="it came back without a GPU")
    last = watch([PodSeen(pod), seen(loaded(1, 0), status(), turns(1))])[-1]
    assert (ids(last), last.verdict) == (["provider-note"], Verdict.HEALTHY)


@pytest.mark.parametrize("state", ["preflight", "starting", "downloading", "loading"])
def test_a_start_says_what_it_is_at(state: str) -> None:
    boot = Boot((Phase("download", 3.0, None, 12.3e9, 240e6),))
    last = watch([seen(None, status(engine=service(state), boot=boot), reachable=False)])[-1]
    assert (ids(last), last.verdict) == (["engine-starting"], Verdict.WARNING)
    assert "12.3 GB at 240 MB/s, for 60 s" in last.findings[0].detail


@pytest.mark.parametrize("state", ["draining", "stopping", "asleep", "stopped"])
def test_a_change_of_the_engine_is_said_with_the_swap_that_it_is_for(state: str) -> None:
    swap = Swap("big", "small", began_s=10.0, eta_s=45.0)
    last = watch([seen(None, status(engine=service(state), swap=swap), reachable=False)] * 3)[-1]
    assert (ids(last), last.verdict) == (["engine-changing"], Verdict.WARNING)
    assert "a swap from small to big, about 35 s to go" in last.findings[0].detail


def test_the_bridges_own_questions_to_a_new_engine_are_not_from_elsewhere() -> None:
    """Seen in the demo: its one-token questions wait behind six prompts."""
    update = seen(loaded(6, 1), status(), turns(6))
    asking = replace(update, report=replace(update.report, engine=replace(update.report.engine, supports=None)))
    assert "orphaned-requests" not in ids(watch([asking] * 20)[-1])
    assert "orphaned-requests" in ids(watch([update] * 20)[-1])


def test_turns_that_all_fail_are_not_healthy() -> None:
    failed = tuple(replace(agent(name), stop="api_error") for name in "ab")
    last = watch([seen(loaded(0, 0), status(), agents=failed)] * 12)[-1]
    assert (ids(last), last.verdict) == (["turns-fail"], Verdict.CRITICAL)
    assert "The last turns of 2 agents ended in api_error." in last.findings[0].detail
    for others, live in (
        ((replace(agent("a"), stop="api_error"), agent("b")), ()),
        ((replace(agent("a"), stop="invalid_request_error"),), ()),
        ((replace(agent("a", idle=90.0), stop="api_error"),), ()),
        (failed, turns(1)),
        ((), ()),
    ):
        assert "turns-fail" not in ids(watch([seen(loaded(0, 0), status(), live, others)] * 12)[-1])
    assert "turns-fail" not in ids(watch([seen(loaded(0, 0), status(), agents=failed)] * 5)[-1]), "it must hold"


def test_a_bridge_that_drains_is_not_called_healthy() -> None:
    scraped = seen(loaded(1, 0), status(), turns(1))
    draining = replace(scraped, report=replace(scraped.report, draining=True))
    last = watch([draining])[-1]
    assert (ids(last), last.verdict) == (["bridge-draining"], Verdict.WARNING)
    assert "1 still run" in last.findings[0].detail


def test_a_pod_without_a_config_is_not_said_to_keep_the_one_before() -> None:
    bare = status(engine=service("stopped"), serial=None, config_error="there is no config yet")
    last = watch([seen(None, bare, reachable=False)] * 3)[-1]
    assert ids(last) == ["no-config"]
    assert "there is no config yet" in last.findings[0].detail


def test_a_death_names_its_cause_and_what_to_do() -> None:
    fault = Fault("cuda-oom", "fatal", "CUDA out of memory.", "lower gpu_memory", {})
    died = status(engine=service("backoff", last_exit="exit code 1", next_start_s=4.0), boot=Boot(fault=fault))
    last = watch([seen(None, died, reachable=False)] * 4)[-1]
    assert ids(last) == ["engine-down"]
    assert last.findings[0].detail == (
        "Engine ended: exit code 1. Next start in 4 s. Cause, cuda-oom: CUDA out of memory. To do: lower gpu_memory"
    )


def test_every_rule_has_its_section_in_the_docs_and_its_lever() -> None:
    text = DOCS.read_text("utf-8")
    for rule in rules.RULES:
        assert f"## {rule.id}" in text
        assert rule.lever
