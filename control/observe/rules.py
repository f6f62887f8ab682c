"""What limits or breaks the pod, named, with its numbers and the lever to pull: (Snapshot, State) -> findings. Pure.

A rule is a condition, how long it must hold before it is said, and its sentence. One table, most serious first;
the console shows the first. docs/diagnosis.md has a section for each id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from control.models import PodState
from control.observe import waits
from control.observe.case import Case
from control.observe.snapshot import Finding, Severity, Snapshot
from control.observe.state import State

STARTING_S = 45.0
"""A pod whose run is younger than this is starting rather than unreachable."""

FROZEN_S = 60.0
LIVELOCK_S = 30.0
SCRAPE_LATE_S = 5.0


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    severity: Severity
    title: str
    holds: Callable[[Case], bool]
    detail: Callable[[Case], str]
    lever: str
    hold_s: float = 0.0
    stays: Callable[[Case], bool] | None = None
    """Once said, it is said as long as this holds too: a cause does not flap while its effect lasts."""
    hidden_by: str = ""
    """Not said while the rule of this id is: that one explains it."""


def evaluate(snap: Snapshot, state: State, now: float) -> tuple[tuple[Finding, ...], dict[str, float]]:
    """Findings now, most serious first, and since when each condition has held."""
    if snap.pod.state in (PodState.EXITED, PodState.TERMINATED):
        return (), {}
    case = Case(snap, state, now)
    held = {rule.id: state.held.get(rule.id, now) for rule in RULES if _holds(rule, case)}
    said = {rule.id for rule in RULES if rule.id in held and now - held[rule.id] >= rule.hold_s}
    return tuple(_finding(rule, case) for rule in RULES if rule.id in said and rule.hidden_by not in said), held


def _holds(rule: Rule, case: Case) -> bool:
    if rule.holds(case):
        return True
    since = case.state.held.get(rule.id)
    said = since is not None and case.now - since >= rule.hold_s
    return said and rule.stays is not None and rule.stays(case)


def _finding(rule: Rule, case: Case) -> Finding:
    return Finding(rule.id, rule.severity, rule.title, rule.detail(case), rule.lever, f"docs/diagnosis.md#{rule.id}")


def _lost(kind: str) -> Callable[[Case], bool]:
    def holds(case: Case) -> bool:
        lost = case.state.lost
        return lost is not None and lost.kind == kind and not _young(case)

    return holds


def _young(case: Case) -> bool:
    """In its first seconds a run has nothing to answer with yet; once it has answered, silence is a fault."""
    uptime = case.snap.pod.uptime_s
    return case.state.report_ok_at is None and uptime is not None and uptime < STARTING_S


def _unauthorized(case: Case) -> bool:
    return case.state.lost is not None and case.state.lost.kind == "unauthorized"


def _engine_in(*states: str) -> Callable[[Case], bool]:
    return lambda case: case.snap.engine.state in states


def _error(case: Case) -> str:
    return case.state.lost.error if case.state.lost else ""


def _last_exit(case: Case) -> str:
    status = case.state.seen.status if case.state.seen else None
    if status is None or status.engine.last_exit is None:
        return "The engine does not answer."
    again = status.engine.next_start_s
    return f"Engine ended: {status.engine.last_exit}." + (f" Next start in {again:.0f} s." if again else "")


def _starting(case: Case) -> str:
    status = case.state.seen.status if case.state.seen else None
    return f"For {status.engine.since_s:.0f} s; requests are answered when it serves." if status else "Not yet up."


def _frozen(case: Case) -> bool:
    return (case.snap.engine.running or 0) > 0 and case.silent_s >= FROZEN_S


def _livelock(case: Case) -> bool:
    return case.snap.engine.running == 0 and case.waiting > 0 and case.silent_s >= LIVELOCK_S


def _scrape_fails(case: Case) -> bool:
    age = case.snap.engine.scrape_age_s
    serving = case.snap.engine.state == "serving" and case.state.scrape_error is not None
    return serving and age is not None and age >= SCRAPE_LATE_S


def _engine_excess(case: Case) -> int:
    """Requests in the engine that the bridge does not know; draining bridges have their own, uncounted here."""
    bridge, engine = case.snap.bridge, case.snap.engine
    if engine.running is None or bridge.upstreams is None or bridge.draining != 0:
        return 0
    return engine.running + case.waiting - bridge.upstreams


RULES: tuple[Rule, ...] = (
    Rule(
        "wrong-token",
        "critical",
        "WRONG TOKEN",
        _unauthorized,
        lambda c: f"The pod answers and refuses our operator token ({_error(c)}).",
        "take this pod's own token: passerelle pod list, or start the pod anew",
    ),
    Rule(
        "pod-unreachable",
        "critical",
        "POD UNREACHABLE",
        _lost("port"),
        lambda c: f"Nothing answers at {c.snap.pod.url} for {c.lost_s:.0f} s: {_error(c)}.",
        "is the pod running (provider light), is its port exposed, is there a network?",
        hold_s=2.0,
    ),
    Rule(
        "bridge-unreachable",
        "critical",
        "BRIDGE DOES NOT ANSWER",
        _lost("bridge"),
        lambda c: f"Something answers at {c.snap.pod.url}, but no bridge, for {c.lost_s:.0f} s: {_error(c)}.",
        "restart the bridge (b)",
        hold_s=2.0,
    ),
    Rule(
        "engine-fatal",
        "critical",
        "ENGINE GAVE UP",
        _engine_in("fatal"),
        _last_exit,
        "read its log (l), correct pod.toml, stop the pod and start it again",
    ),
    Rule(
        "engine-down",
        "critical",
        "ENGINE DOWN",
        _engine_in("backoff", "down"),
        _last_exit,
        "it is started again by itself; its log (l) says why it died",
        hold_s=2.0,
    ),
    Rule(
        "engine-frozen",
        "critical",
        "ENGINE FROZEN",
        _frozen,
        lambda c: f"{c.snap.engine.running} requests run and nothing was computed for {c.silent_s:.0f} s.",
        "save the log (l), then: passerelle pod restart engine",
    ),
    Rule(
        "engine-livelock",
        "critical",
        "ENGINE LIVELOCKED",
        _livelock,
        lambda c: f"{c.waiting} requests wait, none runs, nothing was computed for {c.silent_s:.0f} s.",
        "passerelle pod restart engine; its /health is no evidence",
    ),
    Rule(
        "engine-starting",
        "warning",
        "ENGINE STARTING",
        _engine_in("preflight", "starting", "downloading", "loading"),
        _starting,
        "the log (l) shows how far it is",
    ),
    Rule(
        "leaked-upstreams",
        "warning",
        "UPSTREAM LEAK",
        lambda c: (c.snap.bridge.orphans or 0) > 0,
        lambda c: f"{c.snap.bridge.orphans} requests stay open to the engine though their clients left.",
        "restart the bridge (b)",
        hold_s=10.0,
    ),
    Rule(
        "orphaned-requests",
        "warning",
        "REQUESTS FROM ELSEWHERE",
        lambda c: _engine_excess(c) > 0,
        lambda c: f"The engine has {_engine_excess(c)} requests that the bridge does not know.",
        "another client of the engine, or what outlived a bridge; if it stays: passerelle pod restart engine",
        hold_s=15.0,
    ),
    Rule(
        "kv-capacity",
        "warning",
        "WAITING FOR KV CAPACITY",
        waits.by_kv,
        waits.kv_detail,
        "fewer agents, or a smaller context in pod.toml",
        hold_s=1.5,
        stays=waits.kv_still,
    ),
    Rule(
        "sequence-cap",
        "warning",
        "WAITING FOR A SEQUENCE",
        waits.by_sequences,
        lambda c: f"{waits.who_waits(c)}; {c.snap.engine.running} run, and serve.concurrency allows no more.",
        "raise serve.concurrency in pod.toml",
        hold_s=1.5,
    ),
    Rule(
        "prefill-queue",
        "info",
        "WAITING BEHIND A PREFILL",
        waits.still_waits,
        waits.prefill_detail,
        "it passes when the prompts are read; if it is always so, look at the cache hit rate",
        hold_s=3.0,
        hidden_by="kv-capacity",
    ),
    Rule(
        "scrape-failing",
        "warning",
        "METRICS DO NOT COME",
        _scrape_fails,
        lambda c: f"No metrics for {c.snap.engine.scrape_age_s or 0:.0f} s, though the engine works.",
        "figures are as old as the scrape light says; if it stays, look at the log (l)",
    ),
    Rule(
        "config-refused",
        "warning",
        "CONFIG REFUSED",
        lambda c: c.snap.config_error is not None,
        lambda c: f"{c.snap.config_error}; the one before stays in force.",
        "correct it: passerelle config check FILE",
    ),
    Rule(
        "provider-unreachable",
        "warning",
        "PROVIDER DOES NOT ANSWER",
        lambda c: c.state.pod_error is not None,
        lambda c: f"{c.state.pod_error}; the pod's state and cost are as of its last answer.",
        "cost goes on; see the provider's status page",
        hold_s=10.0,
    ),
)
