"""Which provider a pod is at. A pod is found by its id, or by its name, wherever it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from control.errors import NoSuchPod, PasserelleError, Refused, Unauthorized, Unreachable, UsageError
from control.keys import RUNPOD, Keys
from control.models import Pod, PodId, PodState
from control.provider import Provider
from control.store import CREATE, home

if TYPE_CHECKING:
    from control.runpod.provider import RunPodProvider

NAMES = ("local", "runpod")

ENDED = (PodState.EXITED, PodState.TERMINATED)


def open_provider(name: str) -> Provider:
    """Raises UsageError for a name that is none, Refused for RunPod without an API key."""
    if name == "local":
        from control.local.provider import LocalProvider

        return LocalProvider()
    if name == "runpod":
        return open_rented()
    raise UsageError(f"no provider {name!r}", f"one of: {', '.join(NAMES)}")


def open_rented() -> RunPodProvider:
    """RunPod's, with what it alone can do: offers, create, adopt. Raises Refused without an API key."""
    from control.runpod.provider import RunPodProvider
    from control.runpod.store import Store

    return RunPodProvider.of(Store(home()), Keys())


def in_use(account: bool) -> tuple[str, ...]:
    """The embedded pods, and RunPod once a pod was rented; with `account` as soon as there is a key for it."""
    from control.runpod.store import Store

    rents = bool(Store(home()).ids()) or (account and Keys().get(RUNPOD) is not None)
    return NAMES if rents else NAMES[:1]


def provider_of(pod_id: PodId) -> Provider:
    """By what is kept of the pod on this machine; an id that is not known here may be RunPod's."""
    from control.local.store import Store as LocalStore
    from control.runpod.store import Store as RentedStore

    if RentedStore(home()).known(pod_id) is not None:
        return open_provider("runpod")
    looks_local = pod_id.startswith("local-") or pod_id in LocalStore(home()).ids()
    if looks_local or Keys().get(RUNPOD) is None:
        return open_provider("local")
    return open_provider("runpod")


async def every_pod(account: bool = True) -> tuple[tuple[Pod, ...], tuple[str, ...]]:
    """The pods of every provider in use, newest first, and what could not be asked."""
    pods: list[Pod] = []
    failed: list[str] = []
    for name in in_use(account):
        try:
            pods += await open_provider(name).list()
        except PasserelleError as error:
            failed.append(f"{name}: {error.message}")
    return tuple(sorted(pods, key=lambda pod: -pod.created_at)), tuple(failed)


async def find(named: str | None, stopped_too: bool = False) -> tuple[Provider, Pod]:
    """The pod of that id or name, or the only one of ours that is not stopped, or that there is at all.

    Raises NoSuchPod, or UsageError when several are meant, or the provider's own error.
    """
    if named is None:
        pod = await _the_one(stopped_too)
        return provider_of(pod.id), pod
    pod_id = PodId(named_here(named) or named)
    provider = provider_of(pod_id)
    return provider, await provider.get(pod_id)


async def find_even_unheard(named: str | None, stopped_too: bool = False) -> tuple[Provider, Pod]:
    """As `find`; while the provider does not answer, or not to our key, what is known of the pod here: its bridge, or
    its SSH server, may be well."""
    try:
        return await find(named, stopped_too)
    except (Unreachable, Unauthorized):
        pods, _ = await every_pod()
        for pod in pods:
            if named in (pod.id, pod.name):
                return provider_of(pod.id), pod
        raise


def named_here(name: str) -> str | None:
    """The id of the rented pod of that name, of those that are known on this machine."""
    from control.runpod.store import Store

    store = Store(home())
    return next((record.id for record in store.records() if record.name == name and record.gone_at is None), None)


async def _the_one(stopped_too: bool) -> Pod:
    pods, failed = await every_pod(account=False)
    ours = [pod for pod in pods if pod.ours]
    live = [pod for pod in ours if pod.state not in ENDED] or (ours if stopped_too else [])
    if len(live) == 1:
        return live[0]
    if live:
        raise UsageError("several pods: " + ", ".join(pod.id for pod in live), "name the one that you mean")
    if failed:
        raise Refused("cannot tell which pods there are: " + "; ".join(failed), "name the pod that you mean")
    if ours:
        ids = ", ".join(pod.id for pod in ours)
        raise NoSuchPod(f"no pod runs (stopped: {ids})", f"start one again: passerelle pod start {ours[0].id}")
    raise NoSuchPod("there is no pod", CREATE)
