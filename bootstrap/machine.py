"""One supervised service as a table (machine.toml): step(service, event, now) -> (service, actions). Pure."""

# At most one live process that does not drain. After "stop" nothing is spawned; `now` is monotonic seconds.

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bootstrap.report import ServiceState
from bootstrap.toml_reader import data

STOP_LIMIT_S = 10.0  # from SIGTERM to SIGKILL, where a stop says nothing else
SLEEP_LIMIT_S = 240.0  # a first sleep pins host memory: 44 s were measured for 56 GiB of weights
DUMP_S = 0.5  # what a hung process gets to write its stacks before it is killed
GOOD_RUN_S = 10.0  # having served for so long, a death is the first again: backoff begins anew
RESTING = ("stopped", "asleep", "fatal")
STARTING = ("starting", "downloading", "loading")

# What is wanted of it: to serve, to make room, to be a new process, to end.
Wish = Literal["run", "rest", "restart", "stop"]
# The answers to "prepare", "spawn" and "sleep"; the end of a process; what its log, its probes and its streams tell.
Fact = Literal["ready", "refused", "spawned", "slept", "exited", "seen", "answered", "silent", "doomed", "drained"]


@dataclass(frozen=True, slots=True)
class Event:
    name: Wish | Fact | Literal["tick"]
    pid: int | None = None  # that was meant: what is said of another does not count; of ready, refused: the attempt
    text: str = ""  # why, or how, or the state that was seen
    limit_s: float = STOP_LIMIT_S  # of a stop


# terminate: SIGTERM, on which a bridge drains. dump: its stacks to its log. kill: it and what descends from it.
Deed = Literal["prepare", "spawn", "terminate", "dump", "kill", "sleep", "wake"]


@dataclass(frozen=True, slots=True)
class Action:
    do: Deed
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    start_limit_s: float  # without an answer, in each of starting, downloading and loading
    prepares: bool = False  # preflight comes before each start
    drain_s: float | None = None  # a restart waits so long for what runs to finish
    overlap_s: float | None = None  # processes share a socket: the old one finishes for so long beside the new one
    strikes: int | None = None  # so many failed probes in a row, and it is killed; None: never, a loaded engine is late
    max_deaths: int | None = None  # so many without an answer in between, and it is given up
    sleeps: bool = False  # it rests by sleeping


ENGINE = Policy(start_limit_s=1800.0, prepares=True, drain_s=60.0, max_deaths=6)
BRIDGE = Policy(start_limit_s=20.0, overlap_s=900.0, strikes=2)
HELPER = Policy(start_limit_s=60.0, strikes=2)  # the hub worker, the desktop


@dataclass(frozen=True, slots=True)
class Service:
    policy: Policy
    phase: ServiceState = "stopped"
    since: float = 0.0
    goal: Literal["run", "rest", "end"] = "rest"
    pid: int | None = None
    draining: Mapping[int, float] = field(default_factory=dict)  # pid of each old process -> when to kill it
    deadline: float = math.inf  # when "due" comes
    condemned: str | None = None  # why the supervisor itself kills the process
    stale: bool = False  # the process must not be used again, not even after a sleep
    strikes: int = 0
    failures: int = 0  # deaths since the last good run: the backoff
    barren: int = 0  # deaths since it last answered: the way to fatal
    attempt: int = 0  # what was prepared last
    starts: int = 0
    begun: float = 0.0
    took_s: float | None = None  # the last start, up to its first answer
    last_exit: str | None = None


Outcome = tuple[Service, tuple[Action, ...]]
Table = Mapping[str, Mapping[str, str]]
TABLE: Table = data("machine.toml")
_GOALS: Mapping[str, Literal["run", "rest", "end"]] = {"run": "run", "rest": "rest", "stop": "end"}


def step(service: Service, event: Event, now: float) -> Outcome:
    """The one way that a service changes: by its row in the table, then by what is due."""
    if event.name == "exited" and event.pid in service.draining:
        left = {pid: at for pid, at in service.draining.items() if pid != event.pid}
        return _settled(replace(service, draining=left), now), ()
    if _is_void(service, event):
        return service, ()
    after, actions = _row(replace(service, goal=_GOALS.get(event.name, service.goal)), event.name, event, now)
    late = [pid for pid, at in after.draining.items() if now >= at]
    after = replace(after, draining={**after.draining, **dict.fromkeys(late, math.inf)})
    actions += tuple(Action("kill", pid) for pid in late)
    while now >= after.deadline:
        after, due = _row(replace(after, deadline=math.inf), "due", Event("tick"), now)
        actions += due
    return _settled(after, now), actions


def steer(engines: Mapping[str, Service], wanted: str) -> tuple[str, Wish] | None:
    """What leads to `wanted` alone being awake: one engine and its event; None: nothing to do but wait."""
    for key, engine in engines.items():
        if key != wanted and engine.phase not in RESTING:
            return (key, "rest") if engine.goal == "run" else None
    target = engines.get(wanted)
    leaves = target is not None and target.phase in ("draining", "stopping") and target.goal == "rest"
    return (wanted, "run") if target and (leaves or target.phase in ("stopped", "asleep")) else None


def backoff_s(failures: int) -> float:
    """Seconds to wait after this many deaths in a row: none, then 0.5 doubling up to 30."""
    return 0.0 if failures <= 1 else min(30.0, 0.5 * 2.0 ** min(failures - 2, 16))


def _is_void(service: Service, event: Event) -> bool:
    match event.name:
        case "ready" | "refused":
            return event.pid != service.attempt
        case "run" | "rest" | "restart":
            return service.goal == "end"
        case "seen" | "answered" | "silent" | "doomed" | "slept":
            return event.pid != service.pid or service.condemned is not None
    return event.name == "exited" and event.pid != service.pid


def _row(service: Service, name: str, event: Event, now: float) -> Outcome:
    step_name = TABLE[service.phase].get(name)
    return _STEPS[step_name](service, event, now) if step_name else (service, ())


def _settled(service: Service, now: float) -> Service:
    # A service is stopped only when its last process, draining ones included, is gone.
    phase: ServiceState = "stopping" if service.draining else "stopped"
    if service.pid is None and service.phase in ("stopping", "stopped") and service.phase != phase:
        return replace(service, phase=phase, since=now)
    return service


# What a step comes to: changes, and an action on the process.
def _with(service: Service, do: Deed | None = None, **changes: Any) -> Outcome:
    nobody = service.pid is None and do != "spawn"
    return replace(service, **changes), (Action(do, service.pid or 0),) if do and not nobody else ()


def _enter(
    service: Service, phase: ServiceState, now: float, limit_s: float = math.inf, do: Deed | None = None, **changes: Any
) -> Outcome:
    return _with(service, do, phase=phase, since=now, deadline=now + limit_s, **changes)


def _begin(service: Service, event: Event, now: float) -> Outcome:
    return _again(replace(service, failures=0, barren=0), event, now)  # By hand: all is forgiven.


def _again(service: Service, event: Event, now: float) -> Outcome:
    begun = replace(service, attempt=service.attempt + 1, begun=now, condemned=None, stale=False, strikes=0)
    if service.policy.prepares:
        return _enter(begun, "preflight", now)[0], (Action("prepare", begun.attempt),)
    return _start(begun, event, now)


def _start(service: Service, _: Event, now: float) -> Outcome:
    return _enter(service, "starting", now, service.policy.start_limit_s, "spawn", starts=service.starts + 1)


def _see(service: Service, event: Event, now: float) -> Outcome:
    phase: ServiceState = "downloading" if event.text == "downloading" else "loading"
    return (service, ()) if phase == service.phase else _enter(service, phase, now, service.policy.start_limit_s)


def _strike(service: Service, event: Event, now: float) -> Outcome:
    strikes, most = service.strikes + 1, service.policy.strikes
    if most is None or strikes < most:
        return _with(service, strikes=strikes)
    return _doom(service, replace(event, text=f"did not answer {most} probes in a row ({event.text})"), now)


def _doom(service: Service, event: Event, now: float) -> Outcome:
    why = event.text or f"did not answer within {service.policy.start_limit_s:g} s"
    if service.policy.overlap_s is None or service.phase != "serving":
        return _kill(service, replace(event, text=why), now)
    return _with(service, "dump", condemned=why, deadline=now + DUMP_S)


def _kill(service: Service, event: Event, _: float) -> Outcome:
    why = service.condemned or event.text or "did not stop in time"
    return _with(service, "kill", condemned=why, deadline=math.inf)


def _retire(service: Service, event: Event, now: float) -> Outcome:
    policy, stale = service.policy, event.name == "restart"
    if stale and policy.overlap_s and service.pid:
        old = {**service.draining, service.pid: now + policy.overlap_s}
        begun, actions = _begin(replace(service, draining=old, pid=None), event, now)
        return begun, (Action("terminate", service.pid), *actions)
    if service.phase == "serving" and policy.drain_s:
        return _enter(service, "draining", now, policy.drain_s, stale=stale)
    return _quit(service, event, now)


def _quit(service: Service, event: Event, now: float) -> Outcome:
    may_sleep = service.policy.sleeps and service.phase == "draining" and service.goal == "rest" and not service.stale
    limit_s = SLEEP_LIMIT_S if may_sleep else event.limit_s
    draining = _hurried(service, now + limit_s) if service.goal == "end" else service.draining
    do: Deed = "sleep" if may_sleep else "terminate"
    return _enter(service, "stopping", now, limit_s, do, draining=draining, stale=not may_sleep)


def _hurried(service: Service, until: float) -> Mapping[int, float]:
    return {pid: min(at, until) for pid, at in service.draining.items()}


def _slept(service: Service, event: Event, now: float) -> Outcome:
    asleep, nothing = _enter(service, "asleep", now)
    if service.stale:
        return _quit(asleep, event, now)
    return _wake(asleep, event, now) if service.goal == "run" else (asleep, nothing)


def _wake(service: Service, _: Event, now: float) -> Outcome:
    return _enter(service, "loading", now, SLEEP_LIMIT_S, "wake", begun=now)


def _gone(service: Service, event: Event, now: float) -> Outcome:
    stopped, nothing = _enter(service, "stopped", now, pid=None, last_exit=service.condemned or service.last_exit)
    return _begin(stopped, event, now) if service.goal == "run" else (stopped, nothing)


def _die(service: Service, event: Event, now: float) -> Outcome:
    good_run = service.phase == "serving" and now - service.since >= GOOD_RUN_S
    failures, barren = 1 if good_run else service.failures + 1, service.barren + 1
    how = service.condemned or event.text
    dead = replace(service, pid=None, last_exit=how, failures=failures, barren=barren)
    if service.goal != "run":
        return _enter(dead, "stopped", now)
    if service.policy.max_deaths is not None and barren >= service.policy.max_deaths:
        return _enter(dead, "fatal", now)
    # One that never answered gives way for a moment, in which a swap may be taken back.
    return _enter(dead, "backoff", now, max(backoff_s(failures), 0.5 if service.phase in STARTING else 0.0))


_STEPS: Mapping[str, Callable[[Service, Event, float], Outcome]] = {
    **{"begin": _begin, "again": _again, "start": _start, "see": _see, "strike": _strike, "doom": _doom},
    **{"kill": _kill, "retire": _retire, "quit": _quit, "slept": _slept, "wake": _wake, "gone": _gone, "die": _die},
    "refuse": lambda service, event, now: _enter(service, "fatal", now, last_exit=event.text),
    "note": lambda service, event, _: _with(service, pid=event.pid),
    "serve": lambda service, _, now: _enter(service, "serving", now, barren=0, took_s=now - service.begun),
    "calm": lambda service, _, __: _with(service, strikes=0),
    "resume": lambda service, _, now: (service, ()) if service.stale else _enter(service, "serving", now),
    "outdate": lambda service, _, __: _with(service, stale=True),
    "halt": lambda service, event, now: _enter(
        service, "stopped", now, draining=_hurried(service, now + event.limit_s)
    ),
}
