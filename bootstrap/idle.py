"""When the pod stops itself: after so long without a client, a request or a token. Pure; times in seconds."""

from dataclasses import dataclass, replace

GRACE_S = 3600.0  # to the first request: a pod whose model loads, or whose owner is at lunch, is not idle yet
Count = float | None  # None: nobody could be asked


@dataclass(frozen=True, slots=True)
class Idle:
    """What is known of activity. Only see() and keep() make the next one."""

    since: float  # the last sign of life
    armed: bool = False  # the first request has been seen
    tokens: float | None = None
    busy: bool = False  # there is activity now

    def see(self, now: float, clients: Count = None, running: Count = None, tokens: Count = None) -> "Idle":
        """clients: connections that hold or await a turn. running: the engine's requests. tokens: its counters' sum."""
        # They may restart at 0. What could not be asked is no sign: a dead engine must not cost a night.
        requests = bool(running) or (tokens is not None and self.tokens not in (None, tokens))
        busy, seen = requests or bool(clients), self.tokens if tokens is None else tokens
        return Idle(now if busy else self.since, self.armed or requests, seen, busy)

    def keep(self, now: float) -> "Idle":
        """The operator wants it on: the countdown begins anew."""
        return replace(self, since=now)

    def remaining_s(self, limit_s: float, now: float) -> float:
        """0: the pod is to stop."""
        return max(0.0, (limit_s if self.armed else max(limit_s, GRACE_S)) - (now - self.since))
