"""What a pod is, in our own words whichever provider it is rented from: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NewType

PodId = NewType("PodId", str)


class PodState(StrEnum):
    """Where a pod is in its life, as its provider says. Unknown is a state of ours: the provider did not answer."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    EXITED = "EXITED"
    """Stopped: computes nothing and costs nothing but its disk; can be started again."""
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    """Its provider gave it up; it may still cost, so it is for the operator to start it again or to remove it."""
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars. `disk_per_day` is what a stopped pod still costs."""

    per_hour: float
    disk_per_day: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time at one price. Unix seconds by the operator's clock; control.cost makes and adds them."""

    kind: Literal["compute", "disk"]
    start: float
    seen: float
    """When it was last known to hold."""
    per_hour: float
    open: bool = True
    """It goes on, as far as is known."""
    unsure: float = 0.0
    """Dollars that may come on top: its end lies between two looks, and only the earlier one is counted."""


@dataclass(frozen=True, slots=True)
class SshAddress:
    """Where the pod's own SSH server answers."""

    host: str
    port: int
    user: str


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
    name: str = ""
    gpu_count: int = 1
    data_center: str | None = None
    image: str | None = None
    cuda: str | None = None
    ssh: SshAddress | None = None
    """Direct TCP; None without one, and while the address that is known may be that of the run before."""
    spans: tuple[Span, ...] = ()
    """What was paid when, for a pod whose price can change; empty where `billed_s` and `price` say it all."""
    note: str = ""
    """What is odd about its state, in a sentence."""
    phase: Literal["", "machine", "container", "image"] = ""
    """While it starts: what the provider is at. `image` is the pull of a container's image."""
    ours: bool = True
    """We have its tokens; False for a pod of the account that was made elsewhere."""
    budget: float | None = None
    """Dollars that it may spend in all; None without a limit."""


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


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine that can be rented, at the price for all of its GPUs."""

    gpu: str
    """The provider's exact name of the GPU type."""
    count: int
    memory_gb: int
    """Of one GPU."""
    cloud: str
    data_centers: tuple[str, ...]
    """Those that have it now, or those asked for; empty where the provider chooses."""
    per_hour: float
    stock: Literal["HIGH", "MEDIUM", "LOW", "NONE", "?"]
    """A hint: what is HIGH somewhere can be NONE in one data centre."""
    cuda: tuple[str, ...] = ()
    """CUDA versions with free machines now; empty where the provider does not say."""


@dataclass(frozen=True, slots=True)
class Account:
    """Dollars. None where the provider did not say; `reason` says why."""

    balance: float | None
    per_hour: float | None
    """What everything on the account costs now."""
    limit_per_hour: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Bill:
    """What the provider charged for one pod in [start, end), Unix seconds."""

    start: float
    end: float
    amount: float


@dataclass(frozen=True, slots=True)
class PodLogLine:
    """One line that the provider kept of a pod."""

    at: str
    source: str
    text: str
