"""The restart of the bridge from one key: what was asked, whether it was taken, when the new one answers. Pure.

`now` is monotonic seconds. Back means seen: the pod's own count of bridge restarts grew and its light is good.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

LATE_S = 30.0
KEEP_S = 8.0
"""How long the result stays on screen."""


class Step(StrEnum):
    IDLE = "idle"
    ASKED = "asked"
    ACCEPTED = "accepted"
    BACK = "back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Restarting:
    step: Step = Step.IDLE
    since: float = 0.0
    """ASKED, ACCEPTED: when the key was pressed. BACK, FAILED: when that was known."""
    before: int | None = None
    """The pod's count of bridge restarts when it was asked."""
    took_s: float = 0.0
    message: str = ""
    remedy: str = ""


def busy(state: Restarting) -> bool:
    """A restart is under way: the key does nothing until it ends or is late."""
    return state.step in (Step.ASKED, Step.ACCEPTED)


def late(state: Restarting, now: float) -> bool:
    return busy(state) and now - state.since >= LATE_S


def ask(state: Restarting, restarts: int | None, now: float) -> Restarting | None:
    """Begin one; None when one is already under way."""
    if busy(state) and not late(state, now):
        return None
    return Restarting(Step.ASKED, now, before=restarts)


def accepted(state: Restarting) -> Restarting:
    return replace(state, step=Step.ACCEPTED) if state.step is Step.ASKED else state


def failed(state: Restarting, message: str, remedy: str, now: float) -> Restarting:
    return Restarting(Step.FAILED, now, message=message, remedy=remedy) if busy(state) else state


def seen(state: Restarting, restarts: int | None, light_good: bool, now: float) -> Restarting:
    """A snapshot came. The report that answers the restart may come before the call returns."""
    if not busy(state) or restarts is None or not light_good:
        return state
    if state.before is None:
        return replace(state, before=restarts)
    return Restarting(Step.BACK, now, took_s=now - state.since) if restarts > state.before else state


def tick(state: Restarting, now: float) -> Restarting:
    """Let a good result go from the screen; a failure stays until a key."""
    return Restarting() if state.step is Step.BACK and now - state.since >= KEEP_S else state


def dismiss(state: Restarting) -> Restarting:
    return state if busy(state) else Restarting()
