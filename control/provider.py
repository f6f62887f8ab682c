"""The Provider protocol: what can be done with pods wherever they are rented.

To create one is each provider's own: what a pod is made of differs (control.local.provider.Options,
control.runpod.order.Order), and what comes back does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from control.models import Bill, Pod, PodId, PodLogLine, Tokens


class Provider(Protocol):
    """Errors: NoSuchPod, Refused, Unreachable (control.errors); nothing of a provider's own library leaves it.

    A call that returns has been accepted by the provider, no more: whether it took effect is seen by get().
    """

    @property
    def name(self) -> str: ...

    @property
    def look_every_s(self) -> float:
        """How often get() may be asked while something changes."""
        ...

    async def list(self) -> tuple[Pod, ...]:
        """Every pod that is not terminated, newest first."""
        ...

    async def get(self, pod_id: PodId) -> Pod:
        """One pod as it is now."""
        ...

    async def start(self, pod_id: PodId) -> Pod:
        """Start an exited pod again."""
        ...

    async def restart(self, pod_id: PodId) -> Pod:
        """Everything in a running pod anew: every stream is cut, and what is on no volume may be lost."""
        ...

    async def stop(self, pod_id: PodId) -> None:
        """Ask for the end of compute; done when get() says EXITED. Idempotent."""
        ...

    async def terminate(self, pod_id: PodId) -> None:
        """Stop and remove the pod and its disk; returns when the provider no longer has it. Idempotent."""
        ...

    async def tokens(self, pod_id: PodId) -> Tokens:
        """The pod's two bearer tokens, from the operator's own store."""
        ...

    async def bill(self, pod_id: PodId) -> tuple[Bill, ...]:
        """What was charged for the pod, oldest first; empty where nothing is, or not yet."""
        ...

    def log_lines(self, pod_id: PodId, tail: int, follow: bool) -> AsyncIterator[PodLogLine]:
        """The last `tail` lines that the provider kept of the pod, and with `follow` those to come, without end."""
        ...
