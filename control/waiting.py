"""Waits that an operator sees: for a pod to serve, for one to have stopped. Polls with a limit, says how far it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from bootstrap.report import Status
from bridge.report import PodReport
from control import phases
from control.clock import Clock
from control.errors import PasserelleError, Refused, Unauthorized, Unreachable
from control.models import Pod, PodId, PodState, Target
from control.phases import Phase, Progress
from control.podlink import PodLink
from control.provider import Provider

STOP_AGAIN_S = 15.0
STOPPED_WITHIN_S = 180.0

SILENT_LOOKS = 15
"""A provider that does not answer for a moment ends no wait: a start may take 20 minutes."""

START_TELLS_S = 12.0
"""A bridge that takes longer waits for something, and the pod's start says for what."""

SAYS = "passerelle: "
"""Lines of the pod's start in its container's log (control.pod_start)."""

NOTHING_KNOWN: Mapping[str, tuple[float, ...]] = MappingProxyType({})

Say = Callable[[str], None]
Learn = Callable[[str, float], None]


async def serving(
    provider: Provider,
    pod_id: PodId,
    clock: Clock,
    say: Say,
    before: Mapping[str, tuple[float, ...]] = NOTHING_KNOWN,
    learn: Learn | None = None,
    within_s: float | None = None,
) -> Pod:
    """Until the pod's engine serves. Raises Refused for what will never come, Unreachable when a phase is stuck."""
    began = clock.now()
    progress: Progress | None = None
    silent = 0
    while True:
        try:
            pod, phase, more = await look(provider, pod_id)
            silent = 0
        except Unreachable as error:
            silent += 1
            if progress is None or silent > SILENT_LOOKS:
                raise
            phase, more = progress.phase, error.message
        if phase == "bridge" and progress is not None and clock.now() - progress.since > START_TELLS_S:
            more = await _last_words(provider, pod_id) or more
        now = clock.now()
        was = progress.phase if progress else None
        progress = Progress(began, phase, now) if progress is None else progress.see(phase, now)
        say(phases.line(progress, before, now, more))
        if learn and was is not None and was != phase:
            learn(*progress.took[-1])
        if phase == "serving":
            return pod
        if within_s is not None and now - began > within_s:
            raise Unreachable(f"pod {pod_id} does not serve after {within_s:.0f} s: {more or phases.WORDS[phase]}")
        if phases.stuck(progress, now):
            raise Unreachable(
                f"pod {pod_id} is stuck: {more or phases.WORDS[phase]}, for {phases.clock(now - progress.since)}",
                f"see passerelle pod logs {pod_id}; another machine: passerelle pod terminate {pod_id}, then create",
            )
        await clock.sleep(max(1.0, provider.look_every_s))


async def look(provider: Provider, pod_id: PodId) -> tuple[Pod, Phase, str]:
    """Where the pod is in its start: by its provider first, then by itself."""
    pod = await provider.get(pod_id)
    match pod.state:
        case PodState.STARTING:
            return pod, pod.phase or "machine", pod.note
        case PodState.RUNNING if pod.url:
            phase, more = await _inside(Target(pod.url, (await provider.tokens(pod_id)).operator))
            return pod, phase, more or (pod.note if phase != "serving" else "")
        case PodState.RUNNING:
            raise Refused(f"pod {pod_id} runs and has no port for its bridge", "make it anew, with port 8080/http")
        case PodState.UNKNOWN:
            return pod, "machine", pod.note
        case PodState.ERROR:
            raise Refused(f"pod {pod_id}: {pod.note}", f"passerelle pod terminate {pod_id}")
        case PodState.EXITED | PodState.STOPPING | PodState.TERMINATED:
            raise Refused(f"pod {pod_id} is {pod.state.value}", f"start it again: passerelle pod start {pod_id}")


async def _last_words(provider: Provider, pod_id: PodId) -> str:
    """What the start in the container said last; nothing where the provider has no log of it."""
    try:
        lines = [line.text async for line in provider.log_lines(pod_id, 20, follow=False)]
    except PasserelleError:
        return ""
    said = [line.removeprefix(SAYS) for line in lines if line.startswith(SAYS) and "SSH" not in line]
    return f"the pod's start: {said[-1][:160]}" if said else ""


async def _inside(target: Target) -> tuple[Phase, str]:
    async with PodLink(target) as link:
        try:
            report = await link.report()
        except Unauthorized:
            raise
        except Unreachable:
            return "bridge", ""
    status = _status(report)
    if status is not None and status.engine.state == "fatal":
        last = status.engine.last_exit or "see its log"
        raise Refused(f"the pod's engine does not start: {last}", "passerelle pod logs; then change its config")
    if report.engine.reachable and report.engine.models:
        return "serving", ""
    return "engine", ""


def _status(report: PodReport) -> Status | None:
    try:
        return None if report.bootstrap is None else msgspec.convert(report.bootstrap, Status)
    except msgspec.ValidationError:
        return None


async def exited(provider: Provider, pod_id: PodId, clock: Clock, say: Say) -> Pod:
    """Ask for the stop and poll until the provider says EXITED, asking again when it takes long.

    Raises Unreachable when it does not come: a stop that is not verified is no stop, and the pod may still cost.
    """
    began = asked = clock.now()
    await provider.stop(pod_id)
    while True:
        pod, why = await _seen(provider, pod_id)
        if pod is not None and pod.state in (PodState.EXITED, PodState.TERMINATED):
            return pod
        now = clock.now()
        say(f"{phases.clock(now - began)}  {why or 'stopping'}")
        if now - began > STOPPED_WITHIN_S:
            raise Unreachable(
                f"pod {pod_id} is not EXITED {STOPPED_WITHIN_S:.0f} s after its stop ({why}): it may still cost",
                f"stop it again, or in its provider's console; see: passerelle pod status {pod_id}",
            )
        if now - asked > STOP_AGAIN_S:
            asked = now
            with contextlib.suppress(Unreachable):  # the next look says so
                await provider.stop(pod_id)
        await clock.sleep(provider.look_every_s)


async def _seen(provider: Provider, pod_id: PodId) -> tuple[Pod | None, str]:
    """A provider that does not answer for a moment has not stopped the pod, nor failed to."""
    try:
        pod = await provider.get(pod_id)
    except Unreachable as error:
        return None, error.message
    return pod, pod.note or pod.state.value
