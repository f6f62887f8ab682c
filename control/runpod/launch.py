"""One order -> one pod. Candidates are asked in order and each outcome is reported; no pod is ever made twice.

RunPod can create a pod and then fail its answer. So a creation whose answer is lost is looked up by the pod's name,
which is unique, for as long as a new pod may take to be listed. If it is not found the launch ends there: to go on
with the next candidate could leave two pods that cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from control.clock import Clock
from control.errors import NoSuchPod, PasserelleError, Refused, Unreachable
from control.models import Account, Offer, Tokens
from control.runpod import wire
from control.runpod.client import Client, read
from control.runpod.offers import Attempt
from control.runpod.order import DISK_GB, NAME_MOST, PORTS, Order, is_secret
from control.runpod.problems import Ambiguous, BadRequest, Forbidden, NoCapacity
from control.runpod.wire import PodAnswer

LOOK_FOR_IT_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Pauses between the looks for a pod whose creation was not answered: a minute in all."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launched:
    answer: PodAnswer
    attempt: Attempt


def unique_name(label: str) -> str:
    """What the pod is found by when nothing else is known of it."""
    tail = secrets.token_hex(4)
    return f"{label[: NAME_MOST - len(tail) - 1]}-{tail}"


def with_env(order: Order, tokens: Tokens, hf_token: str | None, public_keys: tuple[str, ...] = ()) -> Order:
    """The order with what every pod of ours needs in its environment; what the order says itself wins.

    `public_keys`: the SSH keys that it lets in. Without any, RunPod puts in those of the account.
    """
    ours = {"PASSERELLE_CLIENT_TOKEN": tokens.client, "PASSERELLE_OPERATOR_TOKEN": tokens.operator}
    if order.hub:
        ours["PASSERELLE_HUB"] = order.hub
    if hf_token:
        ours["HF_TOKEN"] = hf_token
    if public_keys:
        ours["PUBLIC_KEY"] = "\n".join(public_keys)
    return replace(order, env=tuple((ours | dict(order.env)).items()))


def secrets_in(order: Order) -> tuple[str, ...]:
    return tuple(value for name, value in order.env if is_secret(name))


def check_funds(account: Account, cheapest: Offer) -> None:
    """Raises Refused when the balance does not reach for one hour. An unknown balance stops nothing: RunPod checks."""
    if account.balance is not None and account.balance < cheapest.per_hour:
        raise Refused(
            f"the balance of {account.balance:.2f} $ does not reach for one hour at {cheapest.per_hour:.2f} $/h",
            "add funds in RunPod's console (Billing), or take a cheaper GPU",
        )
    total = (account.per_hour or 0.0) + cheapest.per_hour
    if account.limit_per_hour is not None and total > account.limit_per_hour:
        raise Refused(
            f"the account may spend {account.limit_per_hour:.2f} $/h; with this pod it would be {total:.2f} $/h",
            "stop another pod, or have RunPod raise the limit",
        )


async def launch(
    client: Client, clock: Clock, order: Order, name: str, attempts: tuple[Attempt, ...], report: Report
) -> Launched:
    """Raises Refused when nobody has room, Unreachable when RunPod does not say whether the pod was made."""
    failed: list[tuple[Attempt, PasserelleError]] = []
    for number, attempt in enumerate(attempts, 1):
        report(f"asking for {attempt} ({number} of {len(attempts)})")
        try:
            return Launched(await _create(client, clock, order, name, attempt, report), attempt)
        except (NoCapacity, BadRequest, Forbidden) as error:
            if not _another_may_do(error):
                raise
            report(f"  no: {error.message}")
            failed.append((attempt, error))
    raise _nobody(failed)


async def _create(client: Client, clock: Clock, order: Order, name: str, attempt: Attempt, report: Report) -> PodAnswer:
    body = wire.create_body(order, name, attempt.offer, attempt.data_center)
    try:
        return read(wire.pod, await client.create(body, secrets_in(order)))
    except Ambiguous as lost:
        report(f"  {lost.message}; looking for a pod of that name, for up to a minute, before anything else is tried")
        found = await find_by_name(client, clock, name)
        if found is None:
            raise Unreachable(
                f"RunPod did not say whether pod {name} was made, and does not list it after a minute",
                "look again before you create another: passerelle pod list; then adopt it or terminate it",
            ) from lost
        return found


async def find_by_name(client: Client, clock: Clock, name: str) -> PodAnswer | None:
    """A look at once and one after each pause; a list that fails counts as one that does not show it."""
    for pause in (0.0, *LOOK_FOR_IT_S):
        if pause:
            await clock.sleep(pause)
        try:
            found = [pod for pod in await client.pods() if pod.name == name]
        except Unreachable:
            continue
        if found:
            return found[0]
    return None


def _another_may_do(error: PasserelleError) -> bool:
    """A body that breaks the rules (422), or a key without the scope, is refused for every machine alike."""
    if isinstance(error, NoCapacity):
        return True
    text = error.message.lower()
    return "pool not accessible" in text if isinstance(error, Forbidden) else "http 400" in text


def _nobody(failed: list[tuple[Attempt, PasserelleError]]) -> PasserelleError:
    tried = "; ".join(_outcomes(failed))
    if failed and all(isinstance(error, BadRequest) for _, error in failed):
        return BadRequest(f"RunPod takes this request for no machine: {tried}")
    return NoCapacity(
        f"no machine is free now: {tried}", "name more types with --gpu, raise --max-price, or try again later"
    )


def _outcomes(failed: list[tuple[Attempt, PasserelleError]]) -> Iterator[str]:
    for attempt, error in failed:
        yield f"{attempt}: {error.message}"


def same_again(answer: PodAnswer, gpus: tuple[str, ...]) -> Order:
    """An order for a pod like this one, for when its own machine has no room. Its tokens are made anew."""
    if not (answer.image and (gpus or answer.gpu)):
        raise NoSuchPod(f"RunPod does not say what pod {answer.id} is made of", "create it with its own options")
    network = (answer.mounts.network or (None,))[0] if answer.mounts else None
    persistent = answer.mounts.persistent if answer.mounts else None
    mount = network or persistent
    env = {k: v for k, v in (answer.env or {}).items() if not k.startswith("PASSERELLE_") and k != "PUBLIC_KEY"}
    return Order(
        gpus=gpus or ((answer.gpu.id,) if answer.gpu else ()),
        count=max(1, answer.gpu.count) if answer.gpu else 1,
        clouds=(answer.cloud or "SECURE",),
        data_centers=(answer.data_center_id,) if network and answer.data_center_id else (),
        image=answer.image,
        args=answer.args or None,
        disk_gb=answer.disk or DISK_GB,
        volume_gb=persistent.size if persistent else 0,
        network_volume=network.volume_id if network else None,
        mount=mount.path if mount else "/workspace",
        ports=answer.ports or PORTS,
        env=tuple(env.items()),
        registry=answer.registry,
        hub=(answer.env or {}).get("PASSERELLE_HUB"),
    )
