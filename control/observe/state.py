"""What the console remembers between polls: one frozen value, folded by reduce.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from bootstrap.report import LogLine
from bridge.report import EngineProbe
from control.models import Pod
from control.observe.rates import Sample
from control.observe.scrape import EngineMetrics
from control.observe.snapshot import Point
from control.observe.updates import ReportLost, ReportSeen

HISTORY_S = 300.0
LOG_LINES = 2000


@dataclass(frozen=True, slots=True)
class TurnMark:
    """How many output tokens each live turn had at one moment, for its own rate."""

    at: float
    output_tokens: dict[str, int]


@dataclass(frozen=True, slots=True)
class State:
    """Moments are seconds of the operator's monotonic clock; None is "never yet"."""

    pod: Pod | None = None
    pod_ok_at: float | None = None
    pod_error: str | None = None
    seen: ReportSeen | None = None
    """The last report that arrived, however long ago (`report_ok_at`)."""
    report_ok_at: float | None = None
    probe: EngineProbe | None = None
    """The last look of the bridge at the engine that said which engine it is."""
    status_ok_at: float | None = None
    """When the supervisor's status last came with a report."""
    lost: ReportLost | None = None
    """Why there is no report now; None while reports arrive."""
    lost_since: float | None = None
    port_ok_at: float | None = None
    metrics: EngineMetrics | None = None
    """The last scrape, however long ago (`scrape_ok_at`)."""
    scrape_ok_at: float | None = None
    scrape_error: str | None = None
    first_scrape_at: float | None = None
    progress_at: float | None = None
    """When the engine was last seen to compute anything: between two scrapes, never at the first."""
    samples: tuple[Sample, ...] = ()
    turn_marks: tuple[TurnMark, ...] = ()
    preemptions: float | None = None
    """The engine's own count at the first scrape, and what came since, over its restarts."""
    history: tuple[Point, ...] = ()
    log: tuple[LogLine, ...] = ()
    log_next: int = 0
    supervisor_pid: int | None = None
    held: dict[str, float] = field(default_factory=dict)
    """Since when each condition of rules.py has been true."""
