"""What is printed when the screen is gone: whether the pod still runs, what it costs, how to stop it. Pure."""

from __future__ import annotations

from datetime import tzinfo

from console.format import clock, dollars, per
from console.session import Outcome
from console.stopping import Phase, Stopping
from control.models import PodId, PodState
from control.observe.snapshot import Snapshot


def outcome(pod_id: PodId, snap: Snapshot | None, stopping: Stopping, zone: tzinfo | None = None) -> Outcome:
    """The Outcome of leaving now. Says "stopped" only of a pod that the provider was seen to call so."""
    stop = f"stop it with: passerelle pod stop {pod_id}"
    if stopping.phase is Phase.EXITED:
        return Outcome(True, True, _stopped(pod_id, snap, stopping, zone))
    if stopping.phase in (Phase.SENDING, Phase.WAITING, Phase.OVERDUE):
        return Outcome(
            True, False, f"pod {pod_id}: stop sent, not verified yet · look with: passerelle pod list\n{stop}"
        )
    if snap is None or snap.pod.state == PodState.UNKNOWN:
        return Outcome(True, False, f"pod {pod_id}: its state is not known, it may run and cost · {stop}")
    if snap.pod.state == PodState.ERROR:
        return Outcome(True, False, f"pod {pod_id} is in ERROR and may cost · look: passerelle pod status {pod_id}")
    if snap.pod.state not in (PodState.RUNNING, PodState.STARTING):
        return Outcome(True, False, f"pod {pod_id} was last seen {snap.pod.state} · look with: passerelle pod list")
    cost = f"{per(snap.pod.cost_per_hour, 'h')} · spent {dollars(snap.pod.cost_accrued)}"
    budget = ""
    if snap.pod.budget is not None:
        budget = (
            f"\nits budget of {dollars(snap.pod.budget)} is kept only while you watch: passerelle cost {pod_id} --watch"
        )
    return Outcome(True, False, f"pod {pod_id} keeps running: {cost} · {stop}{budget}")


def _stopped(pod_id: PodId, snap: Snapshot | None, stopping: Stopping, zone: tzinfo | None) -> str:
    verified = f", verified {clock(stopping.verified_at, zone)}" if stopping.verified_at is not None else ""
    line = f"pod {pod_id} is {stopping.pod_state}{verified} · compute 0 $/h"
    if snap is not None and stopping.pod_state is PodState.EXITED:
        line += f" · disk {per(snap.pod.disk_per_day, 'day')} · spent {dollars(snap.pod.cost_accrued)}"
    return line
