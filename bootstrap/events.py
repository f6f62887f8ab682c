"""What can happen to a supervised service, and what its machine can ask for: frozen values.

Spawn is answered by exactly one Spawned or SpawnFailed, and every process ends in one Exited.
"""

from __future__ import annotations

from dataclasses import dataclass

from bootstrap.report import Level


@dataclass(frozen=True, slots=True)
class StartRequested:
    pass


@dataclass(frozen=True, slots=True)
class Spawned:
    pid: int


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The process, and all that it left behind, is gone."""

    pid: int
    description: str


@dataclass(frozen=True, slots=True)
class HealthOk:
    pid: int
    """The process that the probe was meant for: a late answer of its predecessor does not count."""


@dataclass(frozen=True, slots=True)
class HealthFailed:
    pid: int
    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    pass


@dataclass(frozen=True, slots=True)
class RestartRequested:
    pass


@dataclass(frozen=True, slots=True)
class StopRequested:
    limit_s: float
    """From SIGTERM to SIGKILL."""


Event = (
    StartRequested | Spawned | SpawnFailed | Exited | HealthOk | HealthFailed | Tick | RestartRequested | StopRequested
)


@dataclass(frozen=True, slots=True)
class Spawn:
    pass


@dataclass(frozen=True, slots=True)
class Terminate:
    """SIGTERM."""

    pid: int


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL, to the process and all that descend from it."""

    pid: int


@dataclass(frozen=True, slots=True)
class Retire:
    """SIGTERM to a process that may finish what it has begun while its successor starts on the same socket."""

    pid: int


@dataclass(frozen=True, slots=True)
class Report:
    level: Level
    line: str


Action = Spawn | Terminate | Kill | Retire | Report
