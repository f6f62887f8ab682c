"""What limits or breaks the pod, named, with its numbers and the lever to pull: (Snapshot, State) -> findings. Pure.

Most serious first; the console shows the first. Those of the pod itself, its provider and its money are in
control.observe.rules_pod. docs/diagnosis.md has a section for each id.
"""

from __future__ import annotations

from collections.abc import Callable

from bootstrap.report import Status
from control.models import PodState
from control.observe import waits
from control.observe.case import Case
from control.observe.rule import Rule
from control.observe.rules_pod import POD_RULES
from control.observe.silence import DECODING
from control.observe.snapshot import EngineState, Finding, Severity, Snapshot
from control.observe.state import State

FROZEN_S = 60.0
LIVELOCK_S = 30.0
SCRAPE_LATE_S = 5.0
RECENT_S = 60.0

OUR_FAULT = ("api_error", "overloaded_error", "timeout_error")
"""Ends of a turn that its client is not to blame for."""


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


def _engine_in(*states: str) -> Callable[[Case], bool]:
    return lambda case: case.snap.engine.state in states


def _status(case: Case) -> Status | None:
    return case.state.seen.status if case.state.seen else None


def _last_exit(case: Case) -> str:
    status = _status(case)
    if status is None or status.engine.last_exit is None:
        return "The engine does not answer."
    again = status.engine.next_start_s
    fault = status.boot.fault if status.boot else None
    cause = f" Cause, {fault.name}: {fault.line} To do: {fault.remedy}" if fault else ""
    return f"Engine ended: {status.engine.last_exit}." + (f" Next start in {again:.0f} s." if again else "") + cause


DOING: dict[EngineState, str] = {
    "preflight": "The machine and the model are looked at",
    "starting": "Its process runs and has not answered",
    "downloading": "Its model is being downloaded",
    "loading": "Its model is being loaded",
    "draining": "It takes no new requests and finishes those that it has",
    "stopping": "It is being ended",
    "asleep": "It sleeps: another model holds the GPU",
    "stopped": "It is off",
}


def _doing(case: Case) -> str:
    """What the engine is at, for how long, and how fast where it says so."""
    status = _status(case)
    if status is None:
        return "Not yet up."
    phase = status.boot.phases[-1] if status.boot and status.boot.phases else None
    size = ""
    if phase is not None and phase.took_s is None and phase.bytes is not None:
        size = f", {phase.bytes / 1e9:.1f} GB"
        size += f" at {phase.bytes_per_s / 1e6:.0f} MB/s" if phase.bytes_per_s else ""
    words = f"{DOING[case.snap.engine.state]}{size}, for {status.engine.since_s:.0f} s"
    return f"{words}{_swapping(status)}; requests wait, and are answered when it serves."


def _swapping(status: Status) -> str:
    swap = status.swap
    if swap is None or swap.took_s is not None or swap.error is not None:
        return ""
    left = "" if swap.eta_s is None else f", about {max(0.0, swap.eta_s - swap.began_s):.0f} s to go"
    return f": a swap from {swap.came_from} to {swap.model}{left}"


def _no_config(case: Case) -> bool:
    return case.snap.config_error is not None and case.snap.config_serial is None


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
    seen = case.state.seen
    if engine.running is None or bridge.upstreams is None or bridge.draining != 0:
        return 0
    if seen is None or seen.report.engine.supports is None:
        return 0  # the bridge's own questions to a new engine are among them, and wait their turn
    return engine.running + case.waiting - bridge.upstreams


def _failures(case: Case) -> list[str]:
    """How the agents' last turns of a minute ended, where each of them failed and none that lives has a token."""
    seen = case.state.seen
    if seen is None or case.snap.engine.state != "serving":
        return []
    ends = [turn.stop or "" for turn in seen.report.agents if (turn.ended_age_s or 0.0) <= RECENT_S]
    works = any(turn.phase in DECODING for turn in seen.report.turns)
    return ends if not works and all(end in OUR_FAULT for end in ends) else []


ENGINE_RULES: tuple[Rule, ...] = (
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
        "save the log (l), then: passerelle engine restart",
    ),
    Rule(
        "engine-livelock",
        "critical",
        "ENGINE LIVELOCKED",
        _livelock,
        lambda c: f"{c.waiting} requests wait, none runs, nothing was computed for {c.silent_s:.0f} s.",
        "passerelle engine restart; its /health is no evidence",
    ),
    Rule(
        "turns-fail",
        "critical",
        "EVERY TURN FAILS",
        lambda c: bool(_failures(c)),
        lambda c: f"The last turns of {len(_failures(c))} agents ended in {', '.join(sorted({*_failures(c)}))}.",
        "the log (l) says why; passerelle bridge restart, or passerelle engine restart",
        hold_s=8.0,
    ),
    Rule(
        "no-config",
        "warning",
        "NO CONFIG IN FORCE",
        _no_config,
        lambda c: f"The pod has nothing to run: {c.snap.config_error}.",
        "publish one: passerelle config publish pod.toml",
    ),
    Rule(
        "engine-starting",
        "warning",
        "ENGINE STARTING",
        _engine_in("preflight", "starting", "downloading", "loading"),
        _doing,
        "how far it is: passerelle boot, or the log (l)",
    ),
    Rule(
        "engine-changing",
        "warning",
        "ENGINE CHANGES",
        _engine_in("draining", "stopping", "asleep", "stopped"),
        _doing,
        "it passes; if it does not: passerelle boot",
        hold_s=1.0,
        hidden_by="no-config",
    ),
    Rule(
        "bridge-draining",
        "warning",
        "NO NEW TURNS",
        lambda c: c.state.seen is not None and c.state.seen.report.draining and c.snap.bridge.turns is not None,
        lambda c: f"The bridge was asked to drain: it refuses new turns; {c.snap.bridge.turns} still run.",
        "to take new ones again: passerelle drain --off",
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
        lambda c: f"The engine has requests that the bridge does not know: {_engine_excess(c)}.",
        "another client of the engine, or what outlived a bridge; if it stays: passerelle engine restart",
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
        lambda c: c.snap.config_error is not None and not _no_config(c),
        lambda c: f"{c.snap.config_error}; the one before stays in force.",
        "correct it: passerelle config check FILE",
    ),
)

_RANK: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}

RULES: tuple[Rule, ...] = tuple(sorted((*POD_RULES, *ENGINE_RULES), key=lambda rule: _RANK[rule.severity]))
"""Of two that are equally serious the pod's own comes first."""
