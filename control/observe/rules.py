"""What limits or breaks the pod, named, with its numbers and the lever to pull: (Snapshot, State) -> findings. Pure.

A rule is a condition, how long it must hold before it is said, and its sentence. One table, most serious first;
the console shows the first. docs/diagnosis.md has a section for each id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from control.models import PodState
from control.observe.snapshot import Finding, Severity, Snapshot
from control.observe.state import State

STARTING_S = 45.0
"""A pod whose run is younger than this is starting rather than unreachable."""

FROZEN_S = 60.0
LIVELOCK_S = 30.0
KV_FULL = 0.95


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule looks at."""

    snap: Snapshot
    state: State
    now: float

    @property
    def silent_s(self) -> float:
        """Seconds since the engine was last seen to compute anything."""
        return 0.0 if self.state.progress_at is None else self.now - self.state.progress_at

    @property
    def lost_s(self) -> float:
        return 0.0 if self.state.lost_since is None else self.now - self.state.lost_since

    @property
    def waiting(self) -> int:
        waiting = self.snap.engine.waiting
        return (waiting.capacity or 0) + (waiting.deferred or 0)

    @property
    def prefilling(self) -> int:
        return sum(1 for agent in self.snap.agents if agent.phase == "prefill")

    @property
    def kv_free(self) -> float | None:
        """Tokens of the KV cache that no running request holds."""
        engine = self.snap.engine
        if engine.kv_usage is None or engine.kv_tokens is None:
            return None
        return engine.kv_tokens * (1 - engine.kv_usage)

    @property
    def next_prompt(self) -> int | None:
        """Tokens of the smallest prompt that waits, as far as its agent's last one tells; else of the usual one."""
        waiting = [a.last_input_tokens for a in self.snap.agents if a.phase == "waiting"]
        known = [tokens for tokens in waiting if tokens]
        if known:
            return min(known)
        others = sorted(a.input_tokens for a in self.snap.agents if a.input_tokens)
        return others[len(others) // 2] if others else None


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    severity: Severity
    title: str
    holds: Callable[[Case], bool]
    detail: Callable[[Case], str]
    lever: str
    hold_s: float = 0.0


def evaluate(snap: Snapshot, state: State, now: float) -> tuple[tuple[Finding, ...], dict[str, float]]:
    """Findings now, most serious first, and since when each condition has held."""
    if snap.pod.state in (PodState.EXITED, PodState.TERMINATED):
        return (), {}
    case = Case(snap, state, now)
    held = {rule.id: state.held.get(rule.id, now) for rule in RULES if rule.holds(case)}
    said = [rule for rule in RULES if rule.id in held and now - held[rule.id] >= rule.hold_s]
    return tuple(_finding(rule, case) for rule in said), held


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


def _who_waits(case: Case) -> str:
    total = (case.snap.engine.running or 0) + case.waiting
    return f"{case.snap.engine.waiting.capacity} of {total} requests wait"


def _kv(case: Case) -> str:
    engine = case.snap.engine
    need = "" if case.next_prompt is None else f"; the next needs about {case.next_prompt / 1000:.0f} k tokens"
    free = "" if case.kv_free is None else f", {case.kv_free / 1000:.0f} k are free (KV {engine.kv_usage or 0:.0%})"
    return f"{_who_waits(case)}{need}{free}."


def _capacity_by_kv(case: Case) -> bool:
    """vLLM says "capacity" for three limits; it is the KV cache when the next prompt does not fit in it.

    Where its size is not known: when nothing prefills and a sequence is left, only the cache can be in the way.
    """
    engine = case.snap.engine
    if not engine.waiting.capacity or _capacity_by_sequences(case):
        return False
    if (engine.kv_usage or 0.0) >= KV_FULL:
        return True
    if case.next_prompt is not None and case.kv_free is not None and case.kv_free < case.next_prompt:
        return True
    return case.prefilling == 0


def _capacity_by_sequences(case: Case) -> bool:
    engine = case.snap.engine
    most = engine.max_num_seqs
    return bool(engine.waiting.capacity) and most is not None and (engine.running or 0) >= most


def _capacity_by_prefill(case: Case) -> bool:
    waits = bool(case.snap.engine.waiting.capacity)
    return waits and not _capacity_by_kv(case) and not _capacity_by_sequences(case)


def _prefill(case: Case) -> str:
    rate = case.snap.engine.prefill_tok_s
    speed = "" if rate is None else f" at {rate:.0f} tok/s computed"
    return f"{_who_waits(case)} behind {case.prefilling} that the engine reads{speed}."


def _frozen(case: Case) -> bool:
    return (case.snap.engine.running or 0) > 0 and case.silent_s >= FROZEN_S


def _livelock(case: Case) -> bool:
    return case.snap.engine.running == 0 and case.waiting > 0 and case.silent_s >= LIVELOCK_S


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
        "read its log (l), correct pod.toml, restart the engine",
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
        "save the log (l), then restart the engine",
    ),
    Rule(
        "engine-livelock",
        "critical",
        "ENGINE LIVELOCKED",
        _livelock,
        lambda c: f"{c.waiting} requests wait, none runs, nothing was computed for {c.silent_s:.0f} s.",
        "restart the engine; its /health is no evidence",
    ),
    Rule(
        "engine-starting",
        "warning",
        "ENGINE STARTING",
        _engine_in("starting"),
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
        "another client of the engine, or requests that outlived their bridge: restart the engine if they stay",
        hold_s=15.0,
    ),
    Rule(
        "kv-capacity",
        "warning",
        "WAITING FOR KV CAPACITY",
        _capacity_by_kv,
        _kv,
        "fewer agents, or a smaller context in pod.toml",
        hold_s=1.5,
    ),
    Rule(
        "sequence-cap",
        "warning",
        "WAITING FOR A SEQUENCE",
        _capacity_by_sequences,
        lambda c: f"{_who_waits(c)}; {c.snap.engine.running} run, and serve.concurrency allows no more.",
        "raise serve.concurrency in pod.toml",
        hold_s=1.5,
    ),
    Rule(
        "prefill-queue",
        "info",
        "WAITING BEHIND A PREFILL",
        _capacity_by_prefill,
        _prefill,
        "it passes when the prompts are read; if it is always so, look at the cache hit rate",
        hold_s=5.0,
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
