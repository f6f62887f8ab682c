"""Rules of the pod itself: is it there, what does its provider say of it, is its budget used up. Pure."""

from __future__ import annotations

from collections.abc import Callable

from control import cost
from control.models import PodState
from control.observe.case import Case
from control.observe.rule import Rule
from control.phases import clock

STARTING_S = 45.0
"""A pod whose run is younger than this is starting rather than unreachable."""

ON_ITS_WAY = (PodState.STARTING, PodState.STOPPING, PodState.ERROR)
"""In these nothing need answer, and what its provider says of it is the finding."""


def _pod_in(*states: PodState) -> Callable[[Case], bool]:
    return lambda case: case.snap.pod.state in states


def _lost(kind: str) -> Callable[[Case], bool]:
    def holds(case: Case) -> bool:
        lost = case.state.lost
        on_its_way = case.snap.pod.state in ON_ITS_WAY
        return lost is not None and lost.kind == kind and not _young(case) and not on_its_way

    return holds


def _young(case: Case) -> bool:
    """In its first seconds a run has nothing to answer with yet; once it has answered, silence is a fault."""
    uptime = case.snap.pod.uptime_s
    return case.state.report_ok_at is None and uptime is not None and uptime < STARTING_S


def _unauthorized(case: Case) -> bool:
    return case.state.lost is not None and case.state.lost.kind == "unauthorized"


def _error(case: Case) -> str:
    return case.state.lost.error if case.state.lost else ""


def _note(other: str) -> Callable[[Case], str]:
    return lambda case: f"{case.snap.pod.note or other}."


def _budget(case: Case) -> cost.Budget | None:
    pod = case.snap.pod
    if pod.budget is None or pod.cost_accrued is None:
        return None
    return cost.budget(pod.budget, pod.cost_accrued, pod.cost_per_hour or 0.0)


def _budget_is(state: str) -> Callable[[Case], bool]:
    def holds(case: Case) -> bool:
        held = _budget(case)
        return held is not None and held.state == state

    return holds


def _spent(case: Case) -> str:
    held = _budget(case)
    if held is None:
        return ""
    left = f"; the rest lasts {clock(held.left_s)}" if held.left_s else ""
    return f"{held.spent:.2f} of {held.limit:.2f} $ are spent{left}."


POD_RULES: tuple[Rule, ...] = (
    Rule(
        "wrong-token",
        "critical",
        "WRONG TOKEN",
        _unauthorized,
        lambda c: f"The pod answers and refuses our operator token ({_error(c)}).",
        "take this pod's own token: passerelle pod list, or start the pod anew",
    ),
    Rule(
        "pod-error",
        "critical",
        "POD IN ERROR",
        _pod_in(PodState.ERROR),
        _note("Its provider gave it up"),
        "look at its log (passerelle pod logs), then start it again or terminate it: until then it may cost",
    ),
    Rule(
        "budget-gone",
        "critical",
        "BUDGET USED UP",
        _budget_is("stop"),
        _spent,
        "stop it (s); this screen and `passerelle cost --watch` stop it by themselves, once",
    ),
    Rule(
        "pod-unreachable",
        "critical",
        "POD UNREACHABLE",
        _lost("port"),
        lambda c: f"Nothing answers at {c.snap.pod.url} for {c.lost_s:.0f} s: {_error(c)}.",
        "does it run (provider light), is its port exposed, is there a network? its start: passerelle pod logs",
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
        "pod-starting",
        "warning",
        "POD STARTING",
        _pod_in(PodState.STARTING),
        _note("Its provider starts it"),
        "how far it is, and how long yet: passerelle pod wait",
    ),
    Rule(
        "pod-stopping",
        "warning",
        "POD STOPPING",
        _pod_in(PodState.STOPPING),
        _note("Its provider was asked to stop it, and has not said yet that it did"),
        "verified when its provider says EXITED: passerelle pod stop waits for that",
    ),
    Rule(
        "pod-unknown",
        "warning",
        "POD NOT KNOWN",
        lambda c: c.snap.pod.state == PodState.UNKNOWN and c.state.pod is not None,
        _note("Its provider does not say how it is"),
        "it may run and cost: look in its provider's console, or again in a minute",
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
    Rule(
        "budget-low",
        "warning",
        "BUDGET NEARLY USED UP",
        _budget_is("warn"),
        _spent,
        "at its end the pod is stopped by whoever watches: this screen, or `passerelle cost --watch`",
    ),
    Rule(
        "provider-note",
        "info",
        "THE PROVIDER SAYS",
        lambda c: c.snap.pod.state == PodState.RUNNING and bool(c.snap.pod.note),
        _note(""),
        "as it says; the whole of it: passerelle pod status",
    ),
)
