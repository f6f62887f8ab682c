"""The stop of a pod from one key, as a state machine: states, events, step(). Pure; `now` is monotonic seconds.

READY -s-> COUNTDOWN -3 s or Enter-> SENDING -accepted-> WAITING -provider says EXITED-> EXITED -r-> STARTING -> READY
A budget that is used up begins the countdown too, of 30 s, once.
A stop is verified only by what the provider says: silence, or a call that returned, never leads to EXITED.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from control.models import PodState

COUNTDOWN_S = 3.0
BUDGET_COUNTDOWN_S = 30.0
"""When nobody pressed a key: long enough to read why, and to take it back."""

OVERDUE_S = 60.0
"""After this without EXITED, the stop did not take (a provider's stop may answer 200 and do nothing)."""

ENDED = (PodState.EXITED, PodState.TERMINATED)


class Phase(StrEnum):
    READY = "ready"
    COUNTDOWN = "countdown"
    SENDING = "sending"
    """The call is in flight."""
    WAITING = "waiting"
    """The provider took the call; it has not said EXITED yet."""
    OVERDUE = "overdue"
    """It should have been EXITED by now. The pod may still cost money."""
    STOP_FAILED = "stop failed"
    EXITED = "exited"
    STARTING = "starting"
    START_FAILED = "start failed"


@dataclass(frozen=True, slots=True)
class Stopping:
    phase: Phase = Phase.READY
    since: float = 0.0
    """COUNTDOWN: when it began. SENDING, WAITING, OVERDUE: when the stop was sent. STARTING: when the start was."""
    pod_state: PodState = PodState.UNKNOWN
    """EXITED or TERMINATED once it is verified; otherwise what was last seen."""
    verified_at: float | None = None
    """EXITED: the Unix time at which the provider was seen to say so."""
    message: str = ""
    remedy: str = ""
    budget: float | None = None
    """COUNTDOWN: the budget that is used up, where no key began it."""
    told: float | None = None
    """The budget that was counted down for already: it is not done again, whatever came of it."""


class Command(StrEnum):
    """What the app must now do."""

    STOP = "stop"
    START = "start"


@dataclass(frozen=True, slots=True)
class StopKey:
    pass


@dataclass(frozen=True, slots=True)
class KeepKey:
    pass


@dataclass(frozen=True, slots=True)
class NowKey:
    pass


@dataclass(frozen=True, slots=True)
class StartKey:
    pass


@dataclass(frozen=True, slots=True)
class Tick:
    pass


@dataclass(frozen=True, slots=True)
class Accepted:
    """The call returned without error."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The call raised; the words are the error's."""

    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The pod has spent its budget of so many dollars."""

    limit: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot: what the provider says, and the Unix time of it."""

    state: PodState
    at: float


Event = StopKey | KeepKey | NowKey | StartKey | Tick | Accepted | Failed | OverBudget | Seen
Step = tuple[Stopping, Command | None]


def step(was: Stopping, event: Event, now: float) -> Step:
    """The next state and what to do. An event that means nothing in a phase changes nothing."""
    handler = TRANSITIONS[was.phase].get(type(event))
    return handler(was, event, now) if handler else (was, None)


def remaining(state: Stopping, now: float) -> float:
    """Seconds left of the countdown."""
    whole = COUNTDOWN_S if state.budget is None else BUDGET_COUNTDOWN_S
    return max(0.0, state.since + whole - now)


def ticks(state: Stopping) -> bool:
    """Whether time alone changes what is shown."""
    return state.phase in (Phase.COUNTDOWN, Phase.SENDING, Phase.WAITING, Phase.OVERDUE, Phase.STARTING)


def _count_down(was: Stopping, _: Event, now: float) -> Step:
    return replace(was, phase=Phase.COUNTDOWN, since=now, message="", remedy=""), None


def _over_budget(was: Stopping, event: Event, now: float) -> Step:
    assert isinstance(event, OverBudget)
    if was.told == event.limit:
        return was, None
    return replace(_count_down(was, event, now)[0], budget=event.limit, told=event.limit), None


def _ready(was: Stopping, _: Event, now: float) -> Step:
    return Stopping(pod_state=was.pod_state, told=was.told), None


def _send(was: Stopping, _: Event, now: float) -> Step:
    return Stopping(Phase.SENDING, since=now, pod_state=was.pod_state, told=was.told), Command.STOP


def _run_out(was: Stopping, event: Event, now: float) -> Step:
    return _send(was, event, now) if remaining(was, now) <= 0 else (was, None)


def _wait(was: Stopping, _: Event, now: float) -> Step:
    return replace(was, phase=Phase.WAITING), None


def _stop_failed(was: Stopping, event: Event, now: float) -> Step:
    assert isinstance(event, Failed)
    return replace(was, phase=Phase.STOP_FAILED, message=event.message, remedy=event.remedy), None


def _overdue(was: Stopping, _: Event, now: float) -> Step:
    return (replace(was, phase=Phase.OVERDUE) if now - was.since >= OVERDUE_S else was), None


def _look(was: Stopping, event: Event, now: float) -> Step:
    assert isinstance(event, Seen)
    if event.state in ENDED:
        return Stopping(Phase.EXITED, now, event.state, verified_at=event.at, told=was.told), None
    return replace(was, pod_state=event.state), None


def _look_after_exit(was: Stopping, event: Event, now: float) -> Step:
    """UNKNOWN is silence and undoes nothing; a pod that runs again was started by someone."""
    assert isinstance(event, Seen)
    if event.state is PodState.TERMINATED:
        return replace(was, pod_state=event.state), None
    if event.state in (PodState.RUNNING, PodState.STARTING):
        return Stopping(pod_state=event.state, told=was.told), None
    return was, None


def _start(was: Stopping, _: Event, now: float) -> Step:
    if was.pod_state is PodState.TERMINATED:
        return was, None
    return Stopping(Phase.STARTING, since=now, pod_state=was.pod_state, told=was.told), Command.START


def _start_failed(was: Stopping, event: Event, now: float) -> Step:
    assert isinstance(event, Failed)
    return replace(was, phase=Phase.START_FAILED, message=event.message, remedy=event.remedy), None


def _look_while_starting(was: Stopping, event: Event, now: float) -> Step:
    """A provider lags: EXITED counts again only once the start is overdue."""
    assert isinstance(event, Seen)
    if event.state in (PodState.RUNNING, PodState.STARTING):
        return Stopping(pod_state=event.state, told=was.told), None
    if event.state in ENDED and now - was.since >= OVERDUE_S:
        words = f"{event.state}, {OVERDUE_S:.0f} s after the start was sent"
        return replace(was, phase=Phase.START_FAILED, message=words, remedy="r tries again"), None
    return was, None


Handler = Callable[[Stopping, Event, float], Step]

TRANSITIONS: dict[Phase, dict[type, Handler]] = {
    Phase.READY: {StopKey: _count_down, OverBudget: _over_budget, Seen: _look},
    Phase.COUNTDOWN: {KeepKey: _ready, NowKey: _send, Tick: _run_out, Seen: _look},
    Phase.SENDING: {Accepted: _wait, Failed: _stop_failed, Seen: _look},
    Phase.WAITING: {Tick: _overdue, Seen: _look},
    Phase.OVERDUE: {StopKey: _send, KeepKey: _ready, Seen: _look},
    Phase.STOP_FAILED: {StopKey: _send, KeepKey: _ready, Seen: _look},
    Phase.EXITED: {StartKey: _start, Seen: _look_after_exit},
    Phase.STARTING: {Failed: _start_failed, Seen: _look_while_starting},
    Phase.START_FAILED: {StartKey: _start, KeepKey: _ready, Seen: _look_after_exit},
}
