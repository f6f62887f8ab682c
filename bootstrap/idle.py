"""When the pod stops itself: after so long without a client, a request or a token. Pure; times in seconds."""

import math
from dataclasses import dataclass, replace

GRACE_S = 3600.0  # to the first request: a pod whose model loads, or whose owner is at lunch, is not idle yet


@dataclass(frozen=True, slots=True)
class Signs:
    """What there is to see of activity at one moment; None where nobody could be asked."""

    clients: int | None = None  # connections to the bridge that hold or await a turn
    running: float | None = None  # requests in the engine, waiting ones included
    tokens: float | None = None  # the engine's counters of prompt and generated tokens together; may restart at 0


@dataclass(frozen=True, slots=True)
class Idle:
    """`since`: the last sign of life. Only step() and keep() make the next one."""

    since: float
    armed: bool = False  # the first request has been seen
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Countdown:
    remaining_s: float  # inf: it is off
    due: bool
    busy: bool  # there is activity now


def step(idle: Idle, signs: Signs, limit_s: float | None, now: float) -> tuple[Idle, Countdown]:
    """limit_s: None turns it off. What could not be asked counts as no sign: a dead engine must not cost a night."""
    requests = bool(signs.running) or (signs.tokens is not None and idle.tokens not in (None, signs.tokens))
    busy = requests or bool(signs.clients)
    seen = signs.tokens if signs.tokens is not None else idle.tokens
    after = Idle(now if busy else idle.since, idle.armed or requests, seen)
    if limit_s is None:
        return after, Countdown(math.inf, False, busy)
    remaining = (limit_s if after.armed else max(limit_s, GRACE_S)) - (now - after.since)
    return after, Countdown(max(0.0, remaining), remaining <= 0, busy)


def keep(idle: Idle, now: float) -> Idle:
    """The operator wants it on: the countdown begins anew."""
    return replace(idle, since=now)
