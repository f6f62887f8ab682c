"""Money: what a pod has cost, costs now and will cost, from what was seen of it and what was billed. Pure.

Dollars, hours and Unix seconds by the operator's clock. What is seen is spans of time at one price; a laptop that
slept or a program that was closed leaves holes in them. A run that is found to go on was running all along. One that
is found ended is counted to the last moment at which it was known to run, and what may come on top is kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from control.models import Bill, Pod, Span

HOUR = 3600.0
HOURS_PER_MONTH = 730.0
VOLUME_STOPPED = 0.20
"""$ per GB and month of a stopped pod's volume disk. Container disk is free then; both cost 0.10 while it runs."""

NETWORK_VOLUME = 0.07
NETWORK_VOLUME_LARGE = 0.05
"""$ per GB and month; the second from 1 TB on."""

SAME_RUN_S = 2.0
"""The provider's time of start may be rounded."""

WARN_AT = 0.8
"""Share of a budget at which it warns."""


def disk_per_hour(volume_gb: float) -> float:
    """What a stopped pod's volume disk costs per hour."""
    return volume_gb * VOLUME_STOPPED / HOURS_PER_MONTH


def network_volume_per_hour(size_gb: float) -> float:
    return size_gb * (NETWORK_VOLUME if size_gb < 1000 else NETWORK_VOLUME_LARGE) / HOURS_PER_MONTH


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a pod: what it costs, and for what."""

    kind: Literal["compute", "disk", "nothing"]
    per_hour: float
    since: float | None = None
    """Start of the run, when the provider says it."""


def observe(spans: tuple[Span, ...], seen: Reading, now: float) -> tuple[Span, ...]:
    """The spans with one more look taken at `now`. A clock that went back changes nothing."""
    last = spans[-1] if spans else None
    now = max(now, last.seen) if last else now
    if last is None or not last.open:
        return (*spans, *_opened(seen, _begin(last, seen, now), now))
    if last.kind == seen.kind and not _another_run(last, seen):
        if last.per_hour == seen.per_hour:
            return (*spans[:-1], replace(last, seen=now))
        more = max(0.0, seen.per_hour - last.per_hour) * (now - last.seen) / HOUR
        return (*spans[:-1], _closed(last, now, more), *_opened(seen, now, now))
    begin = _begin(last, seen, now)
    if last.kind == "compute":
        after = seen.per_hour if seen.kind == "disk" else 0.0
        more = max(0.0, last.per_hour - after) * (begin - last.seen) / HOUR
        counted_to = last.seen
    else:
        more, counted_to = 0.0, begin
    begin = last.seen if seen.kind == "disk" else begin
    return (*spans[:-1], _closed(last, counted_to, more), *_opened(seen, begin, now))


def _another_run(last: Span, seen: Reading) -> bool:
    return seen.kind == "compute" and seen.since is not None and seen.since > last.seen + SAME_RUN_S


def _begin(last: Span | None, seen: Reading, now: float) -> float:
    """Not before the last look, which saw something else, and not in the future."""
    begin = now if seen.since is None else min(seen.since, now)
    return begin if last is None else max(begin, last.seen)


def _opened(seen: Reading, begin: float, now: float) -> tuple[Span, ...]:
    return () if seen.kind == "nothing" else (Span(seen.kind, begin, now, seen.per_hour),)


def _closed(span: Span, end: float, more: float) -> Span:
    return replace(span, seen=end, open=False, unsure=span.unsure + more)


@dataclass(frozen=True, slots=True)
class Spent:
    """Dollars. The truth lies between `total` and `total + unsure`."""

    compute: float
    disk: float
    unsure: float

    @property
    def total(self) -> float:
        return self.compute + self.disk


def spent(spans: tuple[Span, ...], now: float, since: float = 0.0) -> Spent:
    """Everything that the spans cost after `since`; an open one goes on until `now`."""
    sums = {"compute": 0.0, "disk": 0.0}
    for span in spans:
        end = max(span.seen, now) if span.open else span.seen
        sums[span.kind] += max(0.0, end - max(span.start, since)) * span.per_hour / HOUR
    return Spent(sums["compute"], sums["disk"], sum(span.unsure for span in spans if span.seen >= since))


def cost_accrued(pod: Pod, now: float) -> float:
    """Dollars over every run of the pod, up to `now`, its disk while it was stopped included."""
    if pod.spans:
        return spent(pod.spans, now).total
    current = max(0.0, now - pod.started_at) if pod.started_at is not None else 0.0
    return (pod.billed_s + current) * pod.price.per_hour / HOUR


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What was billed until `through`, and what the spans say for the time after it."""

    total: float
    billed: float
    estimated: float
    through: float | None
    """End of the last period that the bills cover; None while there is no bill."""
    off_by: float
    """Our estimate less the bill, for the time that the bill covers."""


def reconcile(spans: tuple[Span, ...], bills: tuple[Bill, ...], now: float) -> Reconciled:
    """Bills win where they are whole; billing lags, so a period that has not ended is still estimated."""
    whole = [bill for bill in bills if bill.end <= now]
    everything = spent(spans, now).total
    if not whole:
        return Reconciled(everything, 0.0, everything, None, 0.0)
    through = max(bill.end for bill in whole)
    first = min(bill.start for bill in whole)
    billed = sum(bill.amount for bill in whole)
    after = spent(spans, now, through).total
    before = everything - spent(spans, now, first).total
    return Reconciled(before + billed + after, billed, before + after, through, everything - before - after - billed)


@dataclass(frozen=True, slots=True)
class Work:
    """How long a pod was watched, and how much of that its engine had nothing to do."""

    watched_s: float = 0.0
    idle_s: float = 0.0
    last_at: float | None = None
    last_busy: bool = False

    def see(self, busy: bool, at: float, hole_s: float = 15.0) -> Work:
        """One look. Time between two looks belongs to what the earlier saw; a hole in the watch belongs to nobody."""
        step = 0.0 if self.last_at is None else at - self.last_at
        if not 0.0 < step <= hole_s:
            return replace(self, last_at=at, last_busy=busy)
        idle = 0.0 if self.last_busy else step
        return Work(self.watched_s + step, self.idle_s + idle, at, busy)

    @property
    def idle_share(self) -> float | None:
        """0 to 1; None when nothing was watched yet."""
        return self.idle_s / self.watched_s if self.watched_s else None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Engine counters; the two times are what its requests spent in prefill and in decode, added up."""

    prompt: float
    """Cached ones included."""
    generation: float
    prefill_s: float | None = None
    decode_s: float | None = None


@dataclass(frozen=True, slots=True)
class PerMillion:
    """Dollars per million tokens. None where there were no such tokens, or nothing says how to share the money."""

    prompt: float | None
    generation: float | None
    all: float | None


def per_million(dollars: float, tokens: Tokens) -> PerMillion:
    """The money of the same time as the tokens, shared between in and out by the time that the engine gave to each."""
    both = tokens.prompt + tokens.generation
    total = dollars / both * 1e6 if both > 0 else None
    times = None if tokens.prefill_s is None or tokens.decode_s is None else tokens.prefill_s + tokens.decode_s
    if not times or tokens.prefill_s is None or tokens.decode_s is None:
        return PerMillion(None, None, total)
    into, out = dollars * tokens.prefill_s / times, dollars * tokens.decode_s / times
    return PerMillion(
        into / tokens.prompt * 1e6 if tokens.prompt > 0 else None,
        out / tokens.generation * 1e6 if tokens.generation > 0 else None,
        total,
    )


def grown(earlier: Tokens, later: Tokens) -> Tokens:
    """What came between two readings; an engine that began anew counts from zero."""
    if later.generation < earlier.generation or later.prompt < earlier.prompt:
        return later
    return Tokens(
        later.prompt - earlier.prompt,
        later.generation - earlier.generation,
        None if later.prefill_s is None or earlier.prefill_s is None else later.prefill_s - earlier.prefill_s,
        None if later.decode_s is None or earlier.decode_s is None else later.decode_s - earlier.decode_s,
    )


def hours_left(balance: float | None, per_hour: float | None) -> float | None:
    """How long the money lasts at this rate; None when either is unknown or nothing is spent."""
    if balance is None or not per_hour:
        return None
    return max(0.0, balance) / per_hour


@dataclass(frozen=True, slots=True)
class Budget:
    state: Literal["ok", "warn", "stop"]
    limit: float
    spent: float
    left_s: float | None
    """Until it is used up at the present price; None when nothing is spent now."""


def budget(limit: float, spent_now: float, per_hour: float) -> Budget:
    """Warns from 80 % on, and says stop once it is used up."""
    state: Literal["ok", "warn", "stop"] = "ok"
    if spent_now >= limit:
        state = "stop"
    elif spent_now >= WARN_AT * limit:
        state = "warn"
    left = max(0.0, limit - spent_now) / per_hour * HOUR if per_hour > 0 else None
    return Budget(state, limit, spent_now, left)
