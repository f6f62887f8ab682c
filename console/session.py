"""What the screen asks of the control plane, and what it leaves behind when it closes. Types only, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from control.models import PodId
from control.observe.snapshot import Snapshot


class Session(Protocol):
    """One pod, seen and steered. The actions raise control.errors.PasserelleError and nothing else."""

    pod_id: PodId

    async def run(self, publish: Callable[[Snapshot], None]) -> None:
        """Publish a snapshot a second, and at each change of the pod, until cancelled.

        Never raises: a pod that does not answer is a Snapshot.
        """
        ...

    async def stop(self) -> None:
        """Ask the provider to stop the pod. Done when a snapshot says EXITED."""
        ...

    async def restart_bridge(self) -> None:
        """Ask the pod for a new bridge; the old one finishes its streams."""
        ...

    async def start(self) -> None:
        """Ask the provider to start the stopped pod again."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the screen ended."""

    left: bool
    """The operator left by a key."""
    stopped: bool
    """The provider was seen to say that the pod is stopped."""
    farewell: str
    """The line or lines to print once the screen is gone; never empty."""
