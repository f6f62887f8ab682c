"""A fleet's life: made of pods, its front started and found again, ended. What the verbs of `passerelle fleet` do."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import httpx
import msgspec

from control import waiting
from control.clock import Clock
from control.errors import PasserelleError, Refused, Unreachable, UsageError
from control.fleet.front import router_program
from control.fleet.models import Fleet, FrontStatus
from control.fleet.store import Fleets, Front
from control.fleet.tunnel import inside
from control.local import processes
from control.models import Pod, PodId, PodState, Target, Tokens
from control.podlink import PodLink
from control.provider import Provider
from control.providers import provider_of

UP_WITHIN_S = 30.0
END_WITHIN_S = 12.0
ASK_S = 2.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Member:
    """One replica: its pod, or why its provider could not say."""

    id: PodId
    provider: Provider | None
    pod: Pod | None
    problem: str = ""


def make(fleets: Fleets, name: str | None, host: str, port: int | None) -> Fleet:
    """A fleet without replicas and without a front. Raises UsageError, Refused."""
    if sys.platform != "linux":
        raise Refused(f"a fleet's front needs Linux, and this is {sys.platform}", "run it in WSL or a container")
    router_program()
    called = name or f"fleet-{secrets.token_hex(2)}"
    if called in fleets.names():
        raise UsageError(f"there is a fleet {called} already", f"start it again: passerelle fleet start {called}")
    if port is not None and not processes.port_is_free(port):
        raise Refused(f"port {port} on 127.0.0.1 is in use by another program", "choose another with --port")
    fleet = Fleet(called, time.time(), (), host, port or processes.free_port())
    fleets.save(fleet)
    fleets.save_tokens(called, Tokens(*(f"pas-{role}-{secrets.token_urlsafe(24)}" for role in ("client", "operator"))))
    return fleet


async def start_front(fleets: Fleets, fleet: Fleet) -> None:
    """Start the front's process and wait until its bridge answers. Nothing happens when it runs."""
    if running(fleets, fleet.name):
        return
    if not fleet.replicas:
        raise Refused(f"fleet {fleet.name} has no replicas", f"passerelle fleet terminate {fleet.name}")
    argv = [sys.executable, "-P", "-m", "control.fleet.front", fleet.name]
    out = fleets.folder(fleet.name) / "front.out"
    process = processes.spawn(argv, os.environ, out)
    until = time.monotonic() + UP_WITHIN_S
    while not await _answers(fleet):
        code = processes.exit_code(process)
        if code is not None:
            said = " ".join(out.read_text("utf-8", "replace").split())[-600:]
            raise Refused(f"the front of {fleet.name} ended with exit code {code}: {said or 'it said nothing'}")
        if time.monotonic() > until:
            raise Unreachable(f"the front of {fleet.name} does not answer within {UP_WITHIN_S:.0f} s", f"see {out}")
        await asyncio.sleep(0.1)


async def stop_front(fleets: Fleets, name: str) -> None:
    """End the front and what it runs; streams get their last event. Idempotent."""
    front = running(fleets, name)
    if front is not None:
        family = processes.family(front.process)
        processes.terminate(front.process)
        until = time.monotonic() + END_WITHIN_S
        while any(processes.alive(one) for one in family):
            if time.monotonic() > until:
                processes.kill(family)
            await asyncio.sleep(0.1)
    fleets.forget_front(name)


def running(fleets: Fleets, name: str) -> Front | None:
    """The front's process, if it lives."""
    front = fleets.front(name)
    return front if front is not None and processes.alive(front.process) else None


async def front_status(fleets: Fleets, name: str) -> FrontStatus:
    """What the front says of itself. Raises Unreachable."""
    front = running(fleets, name)
    if front is None:
        raise Unreachable(f"the front of {name} does not run", f"start it again: passerelle fleet start {name}")
    try:
        async with httpx.AsyncClient(timeout=ASK_S, trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{front.port}{inside(front.secret)}/front")
        return msgspec.json.decode(answer.raise_for_status().content, type=FrontStatus)
    except (httpx.HTTPError, msgspec.DecodeError) as error:
        raise Unreachable(f"the front of {name} does not answer: {error or type(error).__name__}") from error


async def members(replicas: Iterable[PodId]) -> tuple[Member, ...]:
    """What the replicas' providers say of them; each asked at the same time, none that fails hides another."""

    async def look(pod_id: PodId) -> Member:
        provider: Provider | None = None
        try:
            provider = provider_of(pod_id)
            return Member(pod_id, provider, await provider.get(pod_id))
        except PasserelleError as error:
            return Member(pod_id, provider, None, error.message)

    return tuple(await asyncio.gather(*(look(one) for one in replicas)))


async def wait_serving(replicas: Iterable[PodId], say: Say, within_s: float | None) -> tuple[str, ...]:
    """Until each replica's engine serves. Why those that will not, do not."""
    failed: list[str] = []
    for one in replicas:  # they start at the same time; the wait for the first is most of the wait for all
        try:
            await waiting.serving(provider_of(one), one, Clock(), partial(_of, say, one), within_s=within_s)
        except PasserelleError as error:
            failed.append(f"{one}: {error.message}")
    return tuple(failed)


def _of(say: Say, pod_id: PodId, text: str) -> None:
    say(f"{pod_id}  {text}")


async def stop_pods(replicas: Iterable[PodId], say: Say) -> tuple[str, ...]:
    """Stop every pod at once and verify each. What could not be verified, in words."""
    ids = tuple(replicas)

    async def stop(pod_id: PodId) -> str:
        try:
            await waiting.exited(provider_of(pod_id), pod_id, Clock(), partial(_of, say, pod_id))
            return ""
        except PasserelleError as error:
            return f"{pod_id}: {error.message}"

    return tuple(filter(None, await asyncio.gather(*(stop(one) for one in ids))))


async def start_pods(replicas: Iterable[PodId]) -> tuple[str, ...]:
    """Start those that are stopped. What could not be started, in words."""
    failed: list[str] = []
    for one in await members(replicas):
        try:
            if one.pod is None or one.provider is None:
                raise Refused(one.problem)
            if one.pod.state is PodState.EXITED:
                await one.provider.start(one.id)
        except PasserelleError as error:
            failed.append(f"{one.id}: {error.message}")
    return tuple(failed)


async def _answers(fleet: Fleet) -> bool:
    try:
        async with httpx.AsyncClient(timeout=ASK_S, trust_env=False) as client:
            return (await client.get(f"{fleet.url}/healthz")).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


async def ready(fleets: Fleets, fleet: Fleet, within_s: float) -> bool:
    """Until the bridge knows the model and the router has each replica that serves, or that long.

    A conversation goes to one of those that the router has when it begins, and stays there.
    """
    until = time.monotonic() + within_s
    tokens = fleets.tokens(fleet.name)
    async with PodLink(Target(fleet.url, tokens.operator)) as link:
        while time.monotonic() < until:
            try:
                serving = [one for one in (await front_status(fleets, fleet.name)).replicas if one.state == "serving"]
                if serving and all(one.routed for one in serving) and (await link.report()).engine.models:
                    return True
            except Unreachable:
                pass
            await asyncio.sleep(0.2)
    return False
