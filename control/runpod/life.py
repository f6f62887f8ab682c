"""What is known of one rented pod, and one more look at it. Pure.

RunPod's word is not always the truth of the moment, so each look is read in the light of what we asked for: RUNNING
without a container is not yet up, RUNNING after a stop is stopping, the SSH port of the run before may still be shown
after a start, and a pod that is not found may be one that is not listed yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from control import cost
from control.models import Pod, PodId, PodState, Price, Span, SshAddress
from control.runpod import wire
from control.runpod.wire import PodAnswer

LISTED_WITHIN_S = 120.0
"""A new pod may be unknown to GET and to the list for a while."""

GONE_LOOKS = 2
GONE_AFTER_S = 20.0
"""A known pod is gone once it was missing from the list and by its id, twice, so long apart."""

STALE_SSH_S = 180.0
"""After a start the address of the run before is shown for up to 90 s; an equal one is believed after this long."""

START_LAG_S = 60.0
"""After a start was accepted, EXITED may still be the answer for so long."""

PULL_S = 20 * 60.0
"""A large image takes 10 to 20 minutes."""


_PHASES: dict[str, Literal["machine", "container", "image"]] = {
    "EXITED": "machine",
    "PROVISIONING": "machine",
    "STARTING": "container",
    "RUNNING": "image",
}


@dataclass(frozen=True, slots=True)
class Record:
    """What this machine keeps of a pod. Unix seconds by its own clock. No secret is in it."""

    id: str
    name: str = ""
    created_at: float = 0.0
    made_here: bool = False
    """By us, so that we know that it costs since `created_at`."""
    ours: bool = False
    """We have its tokens: made here, or adopted."""
    spans: tuple[Span, ...] = ()
    run_started: float | None = None
    """`startedAt` of the run in `spans`."""
    ended_at: float | None = None
    stop_asked_at: float | None = None
    start_asked_at: float | None = None
    terminate_asked_at: float | None = None
    missing_since: float | None = None
    missing_looks: int = 0
    gone_at: float | None = None
    ssh: SshAddress | None = None
    ssh_before: SshAddress | None = None
    """Address of the run before the last start."""
    gpu: str | None = None
    gpu_count: int = 1
    data_center: str | None = None
    image: str | None = None
    cuda: str | None = None
    per_hour: float = 0.0
    """Last price seen while it ran."""
    volume_gb: int = 0
    hub: str | None = None
    budget: float | None = None


def observe(record: Record, answer: PodAnswer, now: float, proxy: str) -> tuple[Record, Pod]:
    """One answer about the pod. `proxy` makes a URL of {id} and {port}."""
    state, note = _state(record, answer, now)
    record = _facts(record, answer)
    record = _costs(record, answer, state, now)
    record = _moments(record, state, now)
    address = wire.ssh_address(answer) if state in (PodState.RUNNING, PodState.STARTING) else None
    if address and _stale(record, address, now):
        address, note = None, note or "its SSH port is still that of the run before"
    record = replace(record, ssh=address or record.ssh, missing_since=None, missing_looks=0)
    url = proxy.format(id=record.id, port=8080) if "8080/http" in (answer.ports or ("8080/http",)) else None
    phase = _PHASES[answer.status] if state is PodState.STARTING else ""
    return record, replace(described(record, state, note), url=url, ssh=address, phase=phase)


def missing(record: Record, now: float, proxy: str) -> tuple[Record, Pod]:
    """RunPod says that there is no such pod: believed only when it was asked for, or was missing for long enough."""
    since = record.missing_since if record.missing_since is not None else now
    looks = record.missing_looks + 1
    record = replace(record, missing_since=since, missing_looks=looks)
    enough = looks >= GONE_LOOKS and (record.terminate_asked_at is not None or now - since >= GONE_AFTER_S)
    if record.gone_at is None and now - record.created_at < LISTED_WITHIN_S and record.terminate_asked_at is None:
        note = "RunPod does not list it yet"
        return record, replace(described(record, PodState.STARTING, note), url=_url(record, proxy))
    if record.gone_at is None and not enough:
        note = f"RunPod does not know it (asked {looks} time{'s' if looks > 1 else ''} in {now - since:.0f} s)"
        return record, _as_known(record, note, proxy)
    if record.gone_at is None:
        spans = cost.observe(record.spans, cost.Reading("nothing", 0.0), now)
        record = replace(record, gone_at=now, spans=spans, ended_at=record.ended_at or now)
    note = "" if record.terminate_asked_at else "removed elsewhere: RunPod does not know it any more"
    return record, described(record, PodState.TERMINATED, note)


def unheard(record: Record, why: str, proxy: str) -> Pod:
    """RunPod did not answer: what was known, with no claim of how it is now."""
    return _as_known(record, why, proxy)


def _as_known(record: Record, note: str, proxy: str) -> Pod:
    """Its addresses are those that led to it before: they may well do so still, whatever RunPod's API does."""
    return replace(described(record, PodState.UNKNOWN, note), url=_url(record, proxy), ssh=record.ssh)


def _url(record: Record, proxy: str) -> str:
    return proxy.format(id=record.id, port=8080)


def _state(record: Record, answer: PodAnswer, now: float) -> tuple[PodState, str]:
    stopping = record.stop_asked_at is not None
    match answer.status:
        case "EXITED":
            asked = record.start_asked_at
            if asked is not None and not stopping and now - asked < START_LAG_S and record.ended_at is not None:
                return PodState.STARTING, "its start was accepted"
            return PodState.EXITED, ""
        case "TERMINATED":
            return PodState.TERMINATED, ""
        case "ERROR":
            return PodState.ERROR, "RunPod calls it unrecoverable: start it again, or remove it (it may still cost)"
        case "PROVISIONING" | "STARTING" | "RUNNING" if stopping:
            waited = now - (record.stop_asked_at or now)
            return PodState.STOPPING, f"still {answer.status}, {waited:.0f} s after its stop" if waited > 60 else ""
        case "PROVISIONING":
            return PodState.STARTING, "RunPod looks for a machine"
        case "STARTING":
            return PodState.STARTING, "its container starts"
        case "RUNNING":
            return _running(record, answer, now)
        case status:
            return PodState.UNKNOWN, f"RunPod calls its state {status!r}"


def _running(record: Record, answer: PodAnswer, now: float) -> tuple[PodState, str]:
    if answer.runtime is None or not answer.runtime.alive:
        began = wire.unix(answer.started_at) or record.start_asked_at or record.created_at
        waited = max(0.0, now - began)
        if waited > PULL_S:
            return PodState.STARTING, f"no container after {waited / 60:.0f} min: remove it and take another machine"
        return PodState.STARTING, f"no container yet: its image is being pulled ({waited:.0f} s)"
    if answer.gpu is None or answer.gpu.count < 1:
        return PodState.RUNNING, "it came back without a GPU: its machine had none free"
    return PodState.RUNNING, ""


def _facts(record: Record, answer: PodAnswer) -> Record:
    """What the answer says of the machine; what it leaves out stays as it was."""
    gpu = answer.gpu if answer.gpu and answer.gpu.count > 0 else None
    volume = answer.mounts.persistent.size if answer.mounts and answer.mounts.persistent else record.volume_gb
    return replace(
        record,
        name=answer.name or record.name,
        created_at=record.created_at or wire.unix(answer.created_at) or 0.0,
        gpu=gpu.id if gpu else record.gpu,
        gpu_count=gpu.count if gpu else record.gpu_count,
        data_center=answer.data_center_id or record.data_center,
        image=answer.image or record.image,
        cuda=answer.cuda_version or record.cuda,
        per_hour=answer.cost or record.per_hour,
        volume_gb=volume,
    )


def _costs(record: Record, answer: PodAnswer, state: PodState, now: float) -> Record:
    if answer.status in ("PROVISIONING", "STARTING", "RUNNING") or (answer.status == "ERROR" and answer.cost):
        started = wire.unix(answer.started_at)
        known, running = record.run_started, bool(record.spans) and record.spans[-1].open
        running = running and record.spans[-1].kind == "compute"
        another = not running or (known is not None and started is not None and abs(started - known) > cost.SAME_RUN_S)
        since = (started if record.spans or not record.made_here else record.created_at) if another else None
        reading = cost.Reading("compute", answer.cost or record.per_hour, since)
        record = replace(record, run_started=started or (None if another else known))
    elif state is PodState.UNKNOWN:
        return record
    elif state is PodState.TERMINATED:
        reading = cost.Reading("nothing", 0.0)
    else:
        reading = cost.Reading("disk", cost.disk_per_hour(record.volume_gb))
    return replace(record, spans=cost.observe(record.spans, reading, now))


def _moments(record: Record, state: PodState, now: float) -> Record:
    """A stop that has been seen to have worked is over, and so is a start."""
    if state in (PodState.EXITED, PodState.TERMINATED):
        return replace(record, ended_at=record.ended_at or now, stop_asked_at=None, start_asked_at=None)
    if state is PodState.RUNNING:
        return replace(record, ended_at=None)
    return record


def _stale(record: Record, address: SshAddress, now: float) -> bool:
    asked = record.start_asked_at
    return address == record.ssh_before and asked is not None and now - asked < STALE_SSH_S


def described(record: Record, state: PodState, note: str) -> Pod:
    """The pod as its provider's word makes it, without an address."""
    open_run = bool(record.spans) and record.spans[-1].open and record.spans[-1].kind == "compute"
    return Pod(
        id=PodId(record.id),
        provider="runpod",
        state=state,
        price=Price(record.per_hour, cost.disk_per_hour(record.volume_gb) * 24),
        gpu=record.gpu,
        url=None,
        created_at=record.created_at,
        started_at=record.spans[-1].start if open_run and state is not PodState.EXITED else None,
        billed_s=0.0,
        ended_at=record.ended_at,
        name=record.name,
        gpu_count=record.gpu_count,
        data_center=record.data_center,
        image=record.image,
        cuda=record.cuda,
        spans=record.spans,
        note=note,
        ours=record.ours,
        budget=record.budget,
    )


def stop_asked(record: Record, now: float) -> Record:
    return replace(record, stop_asked_at=record.stop_asked_at or now, start_asked_at=None)


def start_asked(record: Record, now: float) -> Record:
    return replace(record, start_asked_at=now, stop_asked_at=None, ssh_before=record.ssh, ssh=None)


def terminate_asked(record: Record, now: float) -> Record:
    return replace(record, terminate_asked_at=record.terminate_asked_at or now)
