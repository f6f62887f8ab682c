"""The Provider protocol: what can be done with pods wherever they are rented."""

from __future__ import annotations

from typing import Protocol

from control.models import Pod, PodId, Tokens


class Provider(Protocol):
    """Errors: NoSuchPod, Refused, Unreachable (control.errors); nothing of a provider's own library leaves it.

    A call that returns has been accepted by the provider, no more: whether it took effect is seen by get().
    """

    name: str

    async def list(self) -> tuple[Pod, ...]:
        """Every pod that is not terminated, newest first."""
        ...

    async def get(self, pod_id: PodId) -> Pod:
        """One pod as it is now."""
        ...

    async def start(self, pod_id: PodId) -> Pod:
        """Start an exited pod again."""
        ...

    async def stop(self, pod_id: PodId) -> None:
        """Ask for the end of compute; done when get() says EXITED. Idempotent."""
        ...

    async def terminate(self, pod_id: PodId) -> None:
        """Stop and remove the pod and its disk. Idempotent."""
        ...

    async def tokens(self, pod_id: PodId) -> Tokens:
        """The pod's two bearer tokens, from the operator's own store."""
        ...
