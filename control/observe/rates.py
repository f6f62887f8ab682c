"""Rates from counters that may be reset: a window of scrapes -> tokens per second. Pure.

vLLM counts a prompt's tokens all at once, when its prefill ends (measured on a real H200: a second with 49 000
between two with none), so prompt rates need a window of several prefills, decode rates one of a few seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

from control.observe.scrape import Buckets, Counters, EngineMetrics, quantile

DECODE_WINDOW_S = 5.0
PREFILL_WINDOW_S = 15.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One scrape at one moment (seconds of the operator's monotonic clock)."""

    at: float
    start_time: float | None
    counters: Counters
    ttft: Buckets
    itl: Buckets


@dataclass(frozen=True, slots=True)
class Window:
    """What the counters grew by over `seconds`; a field is None where the engine does not say it."""

    seconds: float
    grown: Counters

    def per_second(self, tokens: float | None) -> float | None:
        return None if tokens is None else tokens / self.seconds


def remember(samples: tuple[Sample, ...], metrics: EngineMetrics, now: float) -> tuple[Sample, ...]:
    """Append a scrape, and forget what no window reaches any more."""
    new = Sample(now, metrics.start_time, metrics.counters, metrics.ttft, metrics.itl)
    older = [s for s in samples if s.at < now]
    first_needed = 0
    for index, sample in enumerate(older):
        if sample.at <= now - PREFILL_WINDOW_S:
            first_needed = index
    return (*older[first_needed:], new)


def restarted(before: Sample, after: Sample) -> bool:
    """The engine's process began anew between two scrapes."""
    if before.start_time is not None and after.start_time is not None:
        return before.start_time != after.start_time
    return any(_fell(before.counters, after.counters, f.name) for f in fields(Counters))


def _fell(before: Counters, after: Counters, name: str) -> bool:
    old, new = getattr(before, name), getattr(after, name)
    return old is not None and new is not None and new < old


def growth(before: Sample, after: Sample) -> Counters:
    """What was counted between two neighbouring scrapes; after a restart, what the new process has counted."""
    reset = restarted(before, after)
    values: dict[str, float | None] = {}
    for field in fields(Counters):
        old, new = getattr(before.counters, field.name), getattr(after.counters, field.name)
        if new is None or (old is None and not reset):
            values[field.name] = None
        else:
            values[field.name] = new if reset or new < old else new - old
    return Counters(**values)


def window(samples: tuple[Sample, ...], seconds: float) -> Window | None:
    """Growth over the last `seconds` (or over what there is, if less); None with fewer than two scrapes."""
    if len(samples) < 2:
        return None
    last = samples[-1]
    first = next((i for i, s in enumerate(samples) if s.at > last.at - seconds), len(samples) - 1)
    span = samples[max(0, first - 1) :]
    if len(span) > 2 and last.at - span[0].at > 1.5 * seconds:
        span = span[1:]
    steps = [growth(a, b) for a, b in pairwise(span)]
    totals: dict[str, float | None] = {}
    for field in fields(Counters):
        parts = [getattr(step, field.name) for step in steps]
        totals[field.name] = None if any(p is None for p in parts) else float(sum(parts))
    return Window(last.at - span[0].at, Counters(**totals))


def latency(samples: tuple[Sample, ...], q: float) -> tuple[float | None, float | None]:
    """(TTFT, inter-token latency) quantiles in seconds over the samples' span; None where nothing was observed."""
    if len(samples) < 2 or restarted(samples[0], samples[-1]):
        return None, None
    first, last = samples[0], samples[-1]
    return quantile(first.ttft, last.ttft, q), quantile(first.itl, last.itl, q)
