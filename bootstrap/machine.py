"""One supervised service as a table: step(service, event, now) -> (service, actions). Pure.

Rules. At most one live process that is not draining. After StopRequested nothing is ever spawned, and the service is
stopped only when its last process, draining ones included, is gone. `now` is monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bootstrap.events import (
    Action,
    Event,
    Exited,
    HealthFailed,
    HealthOk,
    Kill,
    Report,
    RestartRequested,
    Retire,
    Spawn,
    Spawned,
    SpawnFailed,
    StartRequested,
    StopRequested,
    Terminate,
    Tick,
)
from bootstrap.report import ServiceState as Phase
from bootstrap.service import KILL_AGAIN_S, Draining, Service, backoff_s

Outcome = tuple[Service, tuple[Action, ...]]
Handler = Callable[[Service, Any, float], Outcome]


def step(service: Service, event: Event, now: float) -> Outcome:
    """The one way that a service changes."""
    return TRANSITIONS[service.phase][type(event)](service, event, now)


def _ignore(service: Service, _event: Any, _now: float) -> Outcome:
    return service, ()


def _start(service: Service, _event: StartRequested, now: float) -> Outcome:
    return (service, ()) if service.halted else _spawn(service, now)


def _spawn(service: Service, now: float) -> Outcome:
    deadline = now + service.policy.start_limit_s
    started = replace(service, phase="starting", since=now, pid=None, spawning=True, deadline=deadline)
    return replace(started, condemned=None, again=False, strikes=0), (Spawn(),)


def _spawn_again(service: Service, now: float) -> Outcome:
    return _spawn(replace(service, restarts=service.restarts + 1), now)


def _spawned(service: Service, event: Spawned, now: float) -> Outcome:
    if not service.spawning:
        return _kill_stray(service, event, now)
    started = replace(service, pid=event.pid, spawning=False)
    return started, (Report("info", f"{service.name} started, pid {event.pid}"),)


def _spawned_too_late(service: Service, event: Spawned, now: float) -> Outcome:
    if not service.spawning:
        return _kill_stray(service, event, now)
    return replace(service, pid=event.pid, spawning=False), (Terminate(event.pid),)


def _kill_stray(service: Service, event: Spawned, _now: float) -> Outcome:
    return service, (Kill(event.pid), Report("error", f"{service.name}: pid {event.pid} was not asked for; killed"))


def _spawn_failed(service: Service, event: SpawnFailed, now: float) -> Outcome:
    if not service.spawning:
        return service, ()
    return _died(replace(service, spawning=False), event.reason, now)


def _spawn_failed_stopping(service: Service, _event: SpawnFailed, now: float) -> Outcome:
    return _settle(replace(service, spawning=False), now)


def _exited(service: Service, event: Exited, now: float) -> Outcome:
    if event.pid != service.pid:
        return _drained(service, event, now)
    return _died(service, service.condemned or event.description, now)


def _died(service: Service, reason: str, now: float) -> Outcome:
    policy = service.policy
    good_run = service.phase == "serving" and now - service.since >= policy.good_run_s
    failures = 1 if good_run else service.failures + 1
    dead = replace(service, pid=None, last_exit=reason, failures=failures, barren=service.barren + 1)
    if policy.max_deaths is not None and dead.barren >= policy.max_deaths:
        fatal = replace(dead, phase="fatal", since=now, deadline=None)
        return fatal, (Report("error", f"{service.name}: {reason}; given up after {dead.barren} deaths in a row"),)
    wait = backoff_s(failures)
    report = Report("error", f"{service.name}: {reason}; starting it again" + (f" in {wait:g} s" if wait else ""))
    if wait:
        return replace(dead, phase="backoff", since=now, deadline=now + wait), (report,)
    after, actions = _spawn_again(dead, now)
    return after, (report, *actions)


def _drained(service: Service, event: Exited, _now: float) -> Outcome:
    left = tuple(old for old in service.draining if old.pid != event.pid)
    if left == service.draining:
        return service, ()
    report = Report("info", f"old {service.name}, pid {event.pid}, is gone: {event.description}")
    return replace(service, draining=left), (report,)


def _exited_stopping(service: Service, event: Exited, now: float) -> Outcome:
    if event.pid == service.pid:
        return _settle(replace(service, pid=None), now)
    left, reports = _drained(service, event, now)
    after, actions = _settle(left, now)
    return after, (*reports, *actions)


def _settle(service: Service, now: float) -> Outcome:
    """Leave stopping when nothing of the service lives."""
    if service.pid is not None or service.spawning or service.draining:
        return service, ()
    if service.again:
        return _spawn_again(service, now)
    stopped = replace(service, phase="stopped", since=now, deadline=None, condemned=None)
    return stopped, (Report("info", f"{service.name} stopped"),)


def _answers(service: Service, event: HealthOk, now: float) -> Outcome:
    if event.pid != service.pid or service.condemned:
        return service, ()
    serving = replace(service, phase="serving", since=now, deadline=None, strikes=0, barren=0)
    return serving, (Report("info", f"{service.name} answers after {now - service.since:.1f} s"),)


def _still_answers(service: Service, event: HealthOk, _now: float) -> Outcome:
    if event.pid != service.pid or service.condemned or not service.strikes:
        return service, ()
    return replace(service, strikes=0), (Report("info", f"{service.name} answers again"),)


def _silent(service: Service, event: HealthFailed, now: float) -> Outcome:
    if event.pid != service.pid or service.condemned:
        return service, ()
    struck, limit = replace(service, strikes=service.strikes + 1), service.policy.failed_probes
    if limit is not None and struck.strikes >= limit:
        return _condemn(struck, f"did not answer {limit} probes in a row ({event.reason})", now)
    reports = (Report("warning", f"{service.name} does not answer: {event.reason}"),) if struck.strikes == 1 else ()
    return struck, reports


def _condemn(service: Service, why: str, now: float) -> Outcome:
    if service.pid is None:
        return service, ()
    condemned = replace(service, condemned=service.condemned or why, deadline=now + KILL_AGAIN_S)
    report = Report("error", f"{service.name}, pid {service.pid}, {condemned.condemned}; killing it")
    return condemned, (report, Kill(service.pid))


def _restart(service: Service, _event: RestartRequested, now: float) -> Outcome:
    """By hand, of a process that starts or serves."""
    pid, policy = service.pid, service.policy
    if pid is None:
        return service, (Report("info", f"{service.name} is being started already"),)
    if policy.drain_limit_s is None:
        stopping = replace(service, phase="stopping", since=now, deadline=now + policy.stop_limit_s, again=True)
        return stopping, (Report("info", f"{service.name}: restart asked for"), Terminate(pid))
    old = Draining(pid, now + policy.drain_limit_s)
    after, actions = _spawn_again(replace(service, draining=(*service.draining, old)), now)
    return after, (Report("info", f"{service.name}: restart asked for, pid {pid} drains"), Retire(pid), *actions)


def _restart_dead(service: Service, _event: RestartRequested, now: float) -> Outcome:
    """By hand, of what waits in backoff, is stopped or was given up: all is forgiven."""
    if service.halted:
        return service, ()
    return _spawn_again(replace(service, failures=0, barren=0), now)


def _stop(service: Service, event: StopRequested, now: float) -> Outcome:
    limit = now + event.limit_s
    drains = tuple(replace(old, deadline=min(old.deadline, limit)) for old in service.draining)
    halted = replace(service, halted=True, again=False, draining=drains)
    if service.phase == "stopping":
        return replace(halted, deadline=min(service.deadline or limit, limit)), ()
    stopping = replace(halted, phase="stopping", since=now, deadline=limit)
    if service.pid is None:
        return _settle(stopping, now)
    return stopping, (Terminate(service.pid),)


def _halt(service: Service, _event: StopRequested, _now: float) -> Outcome:
    return replace(service, halted=True), ()


def _tick(service: Service, _event: Tick, now: float) -> Outcome:
    """Draining processes that are past their time, whatever the phase."""
    late = tuple(old.pid for old in service.draining if now >= old.deadline)
    drains = tuple(replace(old, deadline=now + KILL_AGAIN_S) if old.pid in late else old for old in service.draining)
    return replace(service, draining=drains), tuple(Kill(pid) for pid in late)


def _tick_alive(service: Service, event: Tick, now: float) -> Outcome:
    after, kills = _tick(service, event, now)
    if after.deadline is None or now < after.deadline:
        return after, kills
    condemned, actions = _condemn(after, f"did not answer within {service.policy.start_limit_s:g} s", now)
    return condemned, (*kills, *actions)


def _tick_backoff(service: Service, event: Tick, now: float) -> Outcome:
    after, kills = _tick(service, event, now)
    if after.deadline is None or now < after.deadline:
        return after, kills
    started, actions = _spawn_again(after, now)
    return started, (*kills, *actions)


def _tick_stopping(service: Service, event: Tick, now: float) -> Outcome:
    after, kills = _tick(service, event, now)
    if after.pid is None or after.deadline is None or now < after.deadline:
        return after, kills
    report = Report("warning", f"{service.name}, pid {after.pid}, did not stop in time; killing it")
    return replace(after, deadline=now + KILL_AGAIN_S), (*kills, report, Kill(after.pid))


_DEAD: dict[type[Event], Handler] = {
    StartRequested: _ignore,
    Spawned: _kill_stray,
    SpawnFailed: _ignore,
    Exited: _drained,
    HealthOk: _ignore,
    HealthFailed: _ignore,
    Tick: _tick,
    RestartRequested: _restart_dead,
    StopRequested: _stop,
}
_ALIVE: dict[type[Event], Handler] = {
    StartRequested: _ignore,
    Spawned: _kill_stray,
    SpawnFailed: _ignore,
    Exited: _exited,
    HealthOk: _still_answers,
    HealthFailed: _silent,
    Tick: _tick_alive,
    RestartRequested: _restart,
    StopRequested: _stop,
}

TRANSITIONS: dict[Phase, dict[type[Event], Handler]] = {
    "stopped": {**_DEAD, StartRequested: _start, StopRequested: _halt},
    "starting": {
        **_ALIVE,
        Spawned: _spawned,
        SpawnFailed: _spawn_failed,
        HealthOk: _answers,
        HealthFailed: _ignore,
    },
    "serving": _ALIVE,
    "backoff": {**_DEAD, Tick: _tick_backoff},
    "fatal": _DEAD,
    "stopping": {
        **_ALIVE,
        Spawned: _spawned_too_late,
        SpawnFailed: _spawn_failed_stopping,
        Exited: _exited_stopping,
        HealthOk: _ignore,
        HealthFailed: _ignore,
        Tick: _tick_stopping,
        RestartRequested: _ignore,
    },
}
"""Every pair of phase and event, and what it leads to."""
