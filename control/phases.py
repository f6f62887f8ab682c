"""How far a pod has come while it starts, and how long the rest may take, from how long it took before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

Phase = Literal["machine", "container", "image", "bridge", "engine", "serving"]

ORDER: tuple[Phase, ...] = ("machine", "container", "image", "bridge", "engine", "serving")

WORDS: dict[Phase, str] = {
    "machine": "the provider looks for a machine",
    "container": "the container is being made",
    "image": "the image is being pulled",
    "bridge": "the pod's bridge comes up",
    "engine": "the engine loads its model",
    "serving": "serving",
}

LIMIT_S: dict[Phase, float] = {"machine": 600, "container": 600, "image": 2400, "bridge": 900, "engine": 3600}
"""After so long a phase is stuck: large images take 10 to 20 minutes, models are downloaded at their first start."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Seconds by one clock. A phase that is seen for the first time may have begun before."""

    began: float
    phase: Phase
    since: float
    took: tuple[tuple[Phase, float], ...] = ()

    def see(self, phase: Phase, now: float) -> Progress:
        if phase == self.phase:
            return self
        return replace(self, phase=phase, since=now, took=(*self.took, (self.phase, now - self.since)))


def left_s(progress: Progress, before: Mapping[str, tuple[float, ...]], now: float) -> float | None:
    """Medians of earlier starts for what is to come; None until every phase to come was seen once.

    A phase that takes longer than ever before adds nothing: it may end any moment.
    """
    total = 0.0
    for phase in ORDER[ORDER.index(progress.phase) : -1]:
        known = before.get(phase)
        if not known:
            return None
        spent = now - progress.since if phase == progress.phase else 0.0
        total += max(0.0, median(known) - spent)
    return total


def stuck(progress: Progress, now: float) -> bool:
    limit = LIMIT_S.get(progress.phase)
    return limit is not None and now - progress.since > limit


def line(progress: Progress, before: Mapping[str, tuple[float, ...]], now: float, more: str = "") -> str:
    """One line for the operator: what, for how long, how long yet."""
    left = left_s(progress, before, now)
    rest = f", about {clock(left)} to go" if left is not None and progress.phase != "serving" else ""
    return f"{clock(now - progress.began)}  {more or WORDS[progress.phase]}{rest}"


def clock(seconds: float) -> str:
    """4:05, 1:02:03."""
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
