"""What a fleet is and what its front says of itself: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from control.models import PodId

PlaceState = Literal["serving", "waiting", "down"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """fleet.json."""

    name: str
    created_at: float
    """Unix seconds."""
    replicas: tuple[PodId, ...]
    host: str
    port: int
    """Where the front's bridge listens."""

    @property
    def url(self) -> str:
        """For a client on this machine."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one replica's engine takes requests now. `repr` shows no token."""

    state: PlaceState
    """waiting: it starts, restarts or swaps."""
    url: str | None = None
    token: str | None = None
    """For the bridge of a rented pod; an engine on loopback takes none."""
    reason: str = ""

    def __repr__(self) -> str:
        return f"Place({self.state}, {self.url}, {self.reason!r})"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """What the front knows of one replica."""

    id: str
    state: PlaceState
    reason: str
    turns: int
    """Being answered now."""
    conversations: int
    """That had their last turn there, within the last hour."""
    moved: int
    """That went elsewhere since, because it did not take them."""
    routed: bool = False
    """The router takes it for healthy: new conversations may go there."""


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """One of the front's two programs."""

    name: Literal["bridge", "router"]
    running: bool
    restarts: int
    last_exit: str | None


@dataclass(frozen=True, slots=True)
class FrontStatus:
    """GET /front, for the operator's side."""

    pid: int
    uptime_s: float
    programs: tuple[ProgramStatus, ...]
    replicas: tuple[ReplicaStatus, ...]
    router_answers: bool
