"""One moment of one pod, whole and frozen: what `status --json` prints and what the screen shows.

None means "not known", never zero. Rates are per second. Ages are seconds at the moment `at`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from bootstrap.report import Gpu, LogLine, ServiceState


class Verdict(StrEnum):
    """The one-word answer; `status` exits with its EXIT_CODES."""

    HEALTHY = "healthy"
    WARNING = "warning"
    CRITICAL = "critical"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"
    """The provider says EXITED or TERMINATED: verified, not guessed from silence."""
    UNKNOWN = "unknown"
    """Nothing has been polled yet."""


EXIT_CODES = {
    Verdict.HEALTHY: 0,
    Verdict.STOPPED: 0,
    Verdict.WARNING: 1,
    Verdict.CRITICAL: 2,
    Verdict.UNREACHABLE: 3,
    Verdict.UNKNOWN: 3,
}

LightName = Literal["provider", "port", "bridge", "scrape", "tokens"]
LightState = Literal["good", "watch", "bad", "unknown"]
EngineState = ServiceState | Literal["unknown", "down"]
Severity = Literal["info", "warning", "critical"]
AgentPhase = Literal["queued", "swapping", "connecting", "waiting", "prefill", "thinking", "text", "tool", "idle"]


@dataclass(frozen=True, slots=True)
class Light:
    """One rung of the truth ladder. `age_s` is how long ago it was last seen good; None if never."""

    name: LightName
    state: LightState
    age_s: float | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that limits or breaks the pod: one sentence, its numbers, the lever to pull, where to read on."""

    id: str
    severity: Severity
    title: str
    """A few words in capitals on screen: the limit by its name."""
    detail: str
    lever: str
    doc: str
    """Anchor in docs/diagnosis.md."""


@dataclass(frozen=True, slots=True)
class PodView:
    id: str
    provider: str
    state: str
    """A PodState value."""
    gpu: str | None
    url: str | None
    cost_per_hour: float | None
    cost_accrued: float | None
    disk_per_day: float | None
    cuda: str | None
    driver: str | None
    gpu_absent: bool
    """True when the pod itself said that it has no GPU; False when it has one or nothing is known."""
    gpus: tuple[Gpu, ...]
    uptime_s: float | None
    note: str = ""
    """What its provider says of its state, where that is odd or on its way."""
    budget: float | None = None
    """Dollars that it may spend in all; None without a limit."""


@dataclass(frozen=True, slots=True)
class Waiting:
    capacity: int | None
    deferred: int | None


@dataclass(frozen=True, slots=True)
class Totals:
    """Engine counters as scraped, since that engine process began; what the rates are differences of."""

    prompt_computed: int | None
    prompt_cached: int | None
    generation: int | None
    preemptions: int | None
    cache_queries: int | None
    cache_hits: int | None


@dataclass(frozen=True, slots=True)
class EngineView:
    state: EngineState
    model: str | None
    version: str | None
    simulated: bool | None
    max_model_len: int | None
    max_num_seqs: int | None
    """How many requests may run at once, from the engine's own command line."""
    running: int | None
    waiting: Waiting
    kv_usage: float | None
    """0 to 1."""
    kv_tokens: int | None
    """Capacity of the KV cache in tokens."""
    prefill_tok_s: float | None
    """Prompt tokens really computed (source local_compute), cached ones left out."""
    cached_tok_s: float | None
    decode_tok_s: float | None
    cache_hit_rate: float | None
    """Hits over queried tokens in the window, 0 to 1; None when nothing was queried in it."""
    ttft_p50_s: float | None
    itl_p50_s: float | None
    preemptions: int | None
    """The engine's count when this watch began and what came since; does not fall when the engine restarts."""
    restarts: int | None
    totals: Totals
    prefill_window_s: float | None
    """What prefill_tok_s, cached_tok_s and cache_hit_rate are averaged over."""
    decode_window_s: float | None
    scrape_age_s: float | None


@dataclass(frozen=True, slots=True)
class BridgeView:
    clients: int | None
    turns: int | None
    upstreams: int | None
    orphans: int | None
    pings: int | None
    refused: int | None
    restarts: int | None
    draining: int | None
    completed: int | None
    failed: int | None


@dataclass(frozen=True, slots=True)
class AgentView:
    """One row. waiting and prefill are told apart by the scheduler's first-come-first-served order, so inferred."""

    session: str
    agent: str
    phase: AgentPhase
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    tok_s: float | None
    ttft_s: float | None
    age_s: float | None
    """Of its live turn; for an idle agent, since its last turn ended."""
    last_byte_age_s: float | None
    stalled: bool
    """Decoding, and nothing came for 20 s."""
    last_stop: str | None
    last_input_tokens: int | None = None
    """Whole prompt of its last turn that ended: about what its next one needs."""


@dataclass(frozen=True, slots=True)
class Point:
    """One second of history for the charts; None where it was not known (a gap, not a zero)."""

    at: float
    prefill_tok_s: float | None
    decode_tok_s: float | None
    cache_hit_rate: float | None
    kv_usage: float | None
    waiting: int | None
    mark: str = ""
    """What happened here: "engine restart", "bridge restart"."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    at: float
    """Unix seconds, the operator's clock."""
    verdict: Verdict
    findings: tuple[Finding, ...]
    pod: PodView
    engine: EngineView
    bridge: BridgeView
    agents: tuple[AgentView, ...]
    lights: tuple[Light, ...]
    config_serial: int | None
    config_error: str | None
    log: tuple[LogLine, ...] = field(default=())
    """The last lines known, oldest first."""
    history: tuple[Point, ...] = field(default=())
    """Up to five minutes, one point per poll."""
