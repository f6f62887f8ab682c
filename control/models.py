"""What a pod is, in our own words whichever provider it is rented from: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

PodId = NewType("PodId", str)


class PodState(StrEnum):
    """Where a pod is in its life, as its provider says. Unknown is a state of ours: the provider did not answer."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    EXITED = "EXITED"
    """Stopped: computes nothing and costs nothing but its disk; can be started again."""
    TERMINATED = "TERMINATED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars. `disk_per_day` is what a stopped pod still costs."""

    per_hour: float
    disk_per_day: float = 0.0


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod as its provider describes it. Times are Unix seconds by the operator's clock."""

    id: PodId
    provider: str
    state: PodState
    price: Price
    gpu: str | None
    """The GPU's name as the provider says it; None where there is none."""
    url: str | None
    """Base URL of the bridge; None while the pod has no address."""
    created_at: float
    started_at: float | None
    """Start of the current run; None when it does not run."""
    billed_s: float
    """Seconds of compute billed in earlier runs, without the current one."""
    ended_at: float | None = None
    """End of the last run; None while it runs."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The two bearer tokens of a pod. Never logged or shown whole: repr hides them."""

    client: str
    operator: str

    def __repr__(self) -> str:
        return "Tokens(client=…, operator=…)"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a pod's bridge is. The token is the operator's."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Target({self.url})"


def cost_accrued(pod: Pod, now: float) -> float:
    """Dollars of compute over every run of the pod, up to `now` (Unix seconds, the operator's clock)."""
    current = max(0.0, now - pod.started_at) if pod.started_at is not None else 0.0
    return (pod.billed_s + current) * pod.price.per_hour / 3600.0
