"""What a poll can bring back, good or bad: the vocabulary between sources.py and reduce.py. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bootstrap.report import Status
from bridge.report import PodReport
from control.models import Pod
from control.observe.scrape import EngineMetrics

LostKind = Literal["port", "unauthorized", "bridge"]
"""port: nothing answered. unauthorized: the pod refused our token. bridge: something answered, but no report."""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """The provider answered."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodLost:
    """The provider did not answer; what was known before stays, and ages."""

    error: str


@dataclass(frozen=True, slots=True)
class ReportSeen:
    """The bridge answered /pod/report. `status` and `metrics` are None where that part of it was missing or bad."""

    report: PodReport
    status: Status | None
    metrics: EngineMetrics | None
    error: str | None = None
    """Why `status` or `metrics` could not be read, if it was there and could not."""


@dataclass(frozen=True, slots=True)
class ReportLost:
    """The bridge did not answer, or not with a report."""

    kind: LostKind
    error: str


Update = PodSeen | PodLost | ReportSeen | ReportLost
