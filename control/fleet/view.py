"""One moment of a fleet: its front, a row per replica, and their sums. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from control.fleet.models import Fleet, FrontStatus, PlaceState, ReplicaStatus
from control.observe.snapshot import Snapshot, Verdict

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """None means "not known", never zero. Rates are per second."""

    id: str
    verdict: Verdict
    state: str
    """A PodState value."""
    gpu: str | None
    takes: PlaceState | None
    """What the front sends it; None while there is no front."""
    reason: str
    turns: int | None
    conversations: int | None
    moved: int | None
    engine: str
    running: int | None
    waiting: int | None
    kv_usage: float | None
    kv_tokens: int | None
    cache_hit_rate: float | None
    """In the last 15 s."""
    cache_hit_rate_ever: float | None
    """Since its engine began."""
    prefill_tok_s: float | None
    decode_tok_s: float | None
    cost_per_hour: float | None
    cost_accrued: float | None
    findings: tuple[str, ...]
    """Ids; `passerelle status POD` tells them."""


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    at: float
    name: str
    url: str
    verdict: Verdict
    problems: tuple[str, ...]
    front: FrontStatus | None
    replicas: tuple[ReplicaRow, ...]
    running: int | None
    waiting: int | None
    decode_tok_s: float | None
    prefill_tok_s: float | None
    cost_per_hour: float | None
    cost_accrued: float | None


def snapshot(
    at: float, fleet: Fleet, front: FrontStatus | None, front_error: str, seen: Sequence[Snapshot]
) -> FleetSnapshot:
    """`seen` is one snapshot of each replica, in the fleet's order."""
    known = {one.id: one for one in front.replicas} if front else {}
    rows = tuple(_row(pod_id, snap, known.get(pod_id)) for pod_id, snap in zip(fleet.replicas, seen, strict=True))
    problems = tuple(_problems(front, front_error, rows))
    return FleetSnapshot(
        at=at,
        name=fleet.name,
        url=fleet.url,
        verdict=_verdict(front, rows, problems),
        problems=problems,
        front=front,
        replicas=rows,
        running=_sum([row.running for row in rows]),
        waiting=_sum([row.waiting for row in rows]),
        decode_tok_s=_sum([row.decode_tok_s for row in rows]),
        prefill_tok_s=_sum([row.prefill_tok_s for row in rows]),
        cost_per_hour=_sum([row.cost_per_hour for row in rows]),
        cost_accrued=_sum([row.cost_accrued for row in rows]),
    )


def _row(pod_id: str, snap: Snapshot, front: ReplicaStatus | None) -> ReplicaRow:
    engine, totals = snap.engine, snap.engine.totals
    ever = totals.cache_hits / totals.cache_queries if totals.cache_queries and totals.cache_hits is not None else None
    return ReplicaRow(
        id=pod_id,
        verdict=snap.verdict,
        state=snap.pod.state,
        gpu=snap.pod.gpu,
        takes=front.state if front else None,
        reason=front.reason if front else "",
        turns=front.turns if front else None,
        conversations=front.conversations if front else None,
        moved=front.moved if front else None,
        engine=engine.state,
        running=engine.running,
        waiting=_sum([engine.waiting.capacity, engine.waiting.deferred]),
        kv_usage=engine.kv_usage,
        kv_tokens=engine.kv_tokens,
        cache_hit_rate=engine.cache_hit_rate,
        cache_hit_rate_ever=ever,
        prefill_tok_s=engine.prefill_tok_s,
        decode_tok_s=engine.decode_tok_s,
        cost_per_hour=snap.pod.cost_per_hour,
        cost_accrued=snap.pod.cost_accrued,
        findings=tuple(finding.id for finding in snap.findings),
    )


def _problems(front: FrontStatus | None, error: str, rows: tuple[ReplicaRow, ...]) -> list[str]:
    if front is None:
        said = [error or "the front does not run"]
    else:
        ended = [one for one in front.programs if not one.running and one.last_exit]
        said = [f"its {one.name} does not run ({one.last_exit})" for one in ended]
        if not front.router_answers:
            said.append("its router does not answer yet: it waits for a replica that serves")
    takes = [row for row in rows if row.takes == "serving"]
    if front and not takes:
        said.append("no replica serves")
    said += [f"{row.id} takes no turns: {row.reason}" for row in rows if row.takes not in ("serving", None)]
    if front and front.router_answers:
        away = [one.id for one in front.replicas if one.state == "serving" and not one.routed]
        said += [f"{pod_id} serves, and the router has not taken it yet" for pod_id in away]
    return said


def _verdict(front: FrontStatus | None, rows: tuple[ReplicaRow, ...], problems: tuple[str, ...]) -> Verdict:
    if front is None:
        stopped = rows and all(row.verdict is Verdict.STOPPED for row in rows)
        return Verdict.STOPPED if stopped else Verdict.UNREACHABLE
    if not any(row.takes == "serving" for row in rows):
        return Verdict.CRITICAL
    well = not problems and {row.verdict for row in rows} == {Verdict.HEALTHY}
    return Verdict.HEALTHY if well else Verdict.WARNING


def _sum(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
