"""One supervised service as a table: step(service, event, now) -> (service, actions). Pure.

Rules. At most one live process that is not draining. After StopRequested nothing is ever spawned, and the service is
stopped only when its last process, draining ones included, is gone. Times are seconds, `now` is monotonic.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bootstrap.report import ServiceState

RESTART_LIMIT_S = 10.0  # from SIGTERM to SIGKILL in a restart that cannot drain
GOOD_RUN_S = 10.0  # having answered for so long, a death is the first again: backoff begins anew


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Start it, or start it anew."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """The answer to "spawn", or else Exited(None): either comes before any other event."""

    pid: int


@dataclass(frozen=True, slots=True)
class Probed:
    pid: int  # that was meant: a late answer of its predecessor does not count
    fault: str | None  # None: it answered


@dataclass(frozen=True, slots=True)
class Exited:
    pid: int | None  # None: it could not be started
    how: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    limit_s: float  # from SIGTERM to SIGKILL


@dataclass(frozen=True, slots=True)
class Tick: ...


Event = RestartRequested | Spawned | Probed | Exited | StopRequested | Tick


@dataclass(frozen=True, slots=True)
class Action:
    """terminate: SIGTERM, on which a bridge drains. kill: SIGKILL, to the process and all that descend from it."""

    do: Literal["spawn", "terminate", "kill"]
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    start_limit_s: float  # from spawn to the first answer
    drain_limit_s: float | None = None  # set where processes can share a socket: a restart lets the old one drain
    failed_probes: int | None = None  # so many in a row and it is killed; None: never, a loaded engine answers late
    max_deaths: int | None = None  # so many without an answer in between and it is given up


ENGINE = Policy(start_limit_s=1800.0, max_deaths=6)  # weights of hundreds of GB may have to be downloaded first
BRIDGE = Policy(start_limit_s=20.0, drain_limit_s=900.0, failed_probes=3)


@dataclass(frozen=True, slots=True)
class Service:
    """Where one service is. Only step() makes the next one."""

    policy: Policy
    phase: ServiceState = "stopped"
    since: float = 0.0
    pid: int | None = None
    draining: Mapping[int, float] = field(default_factory=dict)  # pid of each old process -> when to kill it
    deadline: float = math.inf  # when to kill the process; in backoff, when to start one
    condemned: str | None = None  # why the supervisor itself kills the process
    halted: bool = False  # StopRequested was seen
    strikes: int = 0  # failed probes in a row
    failures: int = 0  # deaths since the last good run: the backoff
    barren: int = 0  # deaths since it last answered: the way to fatal
    starts: int = 0
    last_exit: str | None = None


Outcome = tuple[Service, tuple[Action, ...]]


def step(service: Service, event: Event, now: float) -> Outcome:
    """The one way that a service changes: by what the event says, then by what is due."""
    told, actions = _told(service, event, now)
    after, due = _due(told, now)
    return after, (*actions, *due)


def backoff_s(failures: int) -> float:
    """Seconds to wait after this many deaths in a row: none, then 0.5 doubling up to 30."""
    return 0.0 if failures <= 1 else min(30.0, 0.5 * 2.0 ** min(failures - 2, 16))


def _told(service: Service, event: Event, now: float) -> Outcome:
    """What each event leads to in each phase. One that has no row changes nothing."""
    match service.phase, event:
        case _, Exited(pid) if pid in service.draining:
            return replace(service, draining={old: at for old, at in service.draining.items() if old != pid}), ()
        case _, Exited(pid) | Probed(pid) if pid != service.pid:
            return service, ()
        case _, StopRequested(limit_s):
            return _stop(service, now, now + limit_s)
        case "stopped" | "backoff" | "fatal", RestartRequested() if not service.halted:
            return _waiting(service, now, failures=0, barren=0), ()  # By hand: all is forgiven.
        case "starting" | "serving", RestartRequested():
            return _restart(service, now)
        case "starting", Spawned(pid):
            return replace(service, pid=pid), ()
        case "starting" | "serving", Exited(_, how):
            return _died(service, how, now), ()
        case "stopping", Exited():
            return replace(service, pid=None) if service.halted else _waiting(service, now), ()
        case "starting" | "serving", Probed(_, fault) if not service.condemned:
            return _probed(service, fault, now), ()
    return service, ()


def _due(service: Service, now: float) -> Outcome:
    late = [pid for pid, at in service.draining.items() if now >= at]
    service = replace(service, draining={**service.draining, **dict.fromkeys(late, math.inf)})
    kills = tuple(Action("kill", pid) for pid in late)
    pid, phase, limit_s = service.pid, service.phase, service.policy.start_limit_s
    if pid is not None and now >= service.deadline:
        slow = "did not stop in time" if phase == "stopping" else f"did not answer within {limit_s:g} s"
        condemned = replace(service, condemned=service.condemned or slow, deadline=math.inf)
        return condemned, (*kills, Action("kill", pid))
    if phase == "stopping" and pid is None and not service.draining:
        return replace(service, phase="stopped", since=now), kills
    if phase == "backoff" and now >= service.deadline:
        begun = replace(service, phase="starting", since=now, deadline=now + limit_s, condemned=None, strikes=0)
        return replace(begun, starts=service.starts + 1), (*kills, Action("spawn"))
    return service, kills


def _waiting(service: Service, now: float, **changes: Any) -> Service:
    return replace(service, phase="backoff", since=now, deadline=now, pid=None, **changes)


def _restart(service: Service, now: float) -> Outcome:
    if service.pid is None:
        return service, ()
    terminate, drain_s = (Action("terminate", service.pid),), service.policy.drain_limit_s
    if drain_s is None:
        return replace(service, phase="stopping", since=now, deadline=now + RESTART_LIMIT_S), terminate
    return _waiting(service, now, draining={**service.draining, service.pid: now + drain_s}), terminate


def _stop(service: Service, now: float, limit: float) -> Outcome:
    draining, deadline = {pid: min(at, limit) for pid, at in service.draining.items()}, min(service.deadline, limit)
    stopping = replace(service, phase="stopping", since=now, halted=True, draining=draining, deadline=deadline)
    return stopping, (Action("terminate", service.pid),) if service.pid and service.phase != "stopping" else ()


def _probed(service: Service, fault: str | None, now: float) -> Service:
    if fault is None and service.phase == "starting":
        return replace(service, phase="serving", since=now, deadline=math.inf, barren=0)
    strikes, most = service.strikes + 1 if fault and service.phase == "serving" else 0, service.policy.failed_probes
    if most is None or strikes < most:
        return replace(service, strikes=strikes)
    return replace(service, condemned=f"did not answer {most} probes in a row ({fault})", deadline=now)


def _died(service: Service, how: str, now: float) -> Service:
    good_run = service.phase == "serving" and now - service.since >= GOOD_RUN_S
    failures, barren, most = 1 if good_run else service.failures + 1, service.barren + 1, service.policy.max_deaths
    fate: ServiceState = "backoff" if most is None or barren < most else "fatal"
    dead = replace(service, phase=fate, since=now, pid=None, deadline=now + backoff_s(failures))
    return replace(dead, last_exit=service.condemned or how, failures=failures, barren=barren)
