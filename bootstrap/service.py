"""The state of one supervised service and how patient we are with it: frozen values. Times are monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass

from bootstrap import report


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient the supervisor is with one service. Seconds."""

    start_limit_s: float
    """From spawn to the first answer."""
    stop_limit_s: float = 10.0
    """From SIGTERM to SIGKILL in a restart."""
    drain_limit_s: float | None = None
    """Set for a service whose processes can share its socket: a restart retires the old one for as long as this."""
    failed_probes: int | None = None
    """This many in a row and it is killed. None: failures are only reported, since a loaded engine answers late."""
    max_deaths: int | None = 6
    """This many deaths without an answer in between and it is given up. None: never."""
    good_run_s: float = 10.0
    """Having answered for so long, a death is the first again: started at once, and backoff begins anew."""


ENGINE = Policy(start_limit_s=1800.0)
"""Half an hour: weights of hundreds of GB may have to be downloaded first."""
BRIDGE = Policy(start_limit_s=20.0, drain_limit_s=900.0, failed_probes=2, max_deaths=None)

KILL_AGAIN_S = 5.0
"""SIGKILL is repeated at this interval until the process is gone."""


@dataclass(frozen=True, slots=True)
class Draining:
    pid: int
    deadline: float


@dataclass(frozen=True, slots=True)
class Service:
    """Where one service is. Only step() makes the next one."""

    name: str
    policy: Policy
    phase: report.ServiceState = "stopped"
    since: float = 0.0
    pid: int | None = None
    spawning: bool = False
    """A Spawn has not been answered yet."""
    draining: tuple[Draining, ...] = ()
    deadline: float | None = None
    """starting, stopping: when to kill. serving: when to kill again. backoff: when to start."""
    condemned: str | None = None
    """Why the supervisor itself has killed the process."""
    again: bool = False
    """stopping: start again once it is gone."""
    halted: bool = False
    """StopRequested was seen."""
    strikes: int = 0
    """Failed probes in a row."""
    failures: int = 0
    """Deaths since the last good run: the backoff."""
    barren: int = 0
    """Deaths since it last answered: the way to fatal."""
    restarts: int = 0
    last_exit: str | None = None


def backoff_s(failures: int) -> float:
    """Seconds to wait after this many deaths in a row: none, then 0.5 doubling up to 30."""
    return 0.0 if failures <= 1 else min(30.0, 0.5 * 2.0 ** min(failures - 2, 16))


def view(service: Service, command: tuple[str, ...], now: float) -> report.Service:
    """The service as it is told to others."""
    waits = service.phase == "backoff" and service.deadline is not None
    return report.Service(
        state=service.phase,
        pid=service.pid,
        since_s=max(0.0, now - service.since),
        restarts=service.restarts,
        draining=len(service.draining),
        last_exit=service.last_exit,
        next_start_s=max(0.0, (service.deadline or now) - now) if waits else None,
        command=command,
    )
