"""What the supervisor says of itself: the JSON of `status`, typed. Frozen values, nothing else. Times are seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

VERSION = "0.1.0"  # the project's own; the pod runs from a zipapp, where no package metadata says it
SCHEMA = 2  # grows when a field changes its meaning or goes; a new field with a default leaves it

# preflight: host and model are looked at. starting: its process runs and has not answered; downloading and loading are
# what its log says of that. draining: gets no new request. asleep: holds no GPU memory. backoff: it died and is started
# again at `next_start_s`. fatal: given up; a restart by hand, a swap or a new config leaves this state.
ServiceState = Literal[
    "stopped", "preflight", "starting", "downloading", "loading", "serving", "draining", "stopping", "asleep",
    "backoff", "fatal",
]  # fmt: skip
Level = Literal["debug", "info", "warning", "error"]
Source = Literal["bootstrap", "engine", "bridge", "hub", "desktop"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that the pod logged, already redacted. `seq` grows by one per line for the life of the supervisor."""

    seq: int
    at: float  # unix time, by the pod's clock
    source: Source
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One row of `nvidia-smi --query-gpu`; None where the driver says [N/A]."""

    index: int
    name: str
    memory_used_mib: float | None
    memory_total_mib: float | None
    utilization_pct: float | None
    power_w: float | None
    temperature_c: float | None
    pstate: str | None = None  # P0 is the fastest
    capability: float | None = None  # compute capability, such as 9.0


@dataclass(frozen=True, slots=True)
class Host:
    """The machine under the pod. No GPU is a fact (`gpus` empty, `gpu_error` None), a failing nvidia-smi is one."""

    driver: str | None = None
    cuda: str | None = None  # the highest version that the driver offers, as nvidia-smi prints it ("13.0")
    gpus: tuple[Gpu, ...] = ()
    gpu_error: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    state: ServiceState = "stopped"
    pid: int | None = None
    since_s: float = 0.0  # in this state
    restarts: int = 0  # times that it was started again, by the supervisor or by hand, since the supervisor began
    draining: int = 0  # old processes of it that still finish their streams after a restart
    last_exit: str | None = None  # how it last ended when nobody asked it to; None if it never did
    next_start_s: float | None = None  # in backoff: until it is started again
    command: tuple[str, ...] = ()
    took_s: float | None = None  # its last start, up to its first answer


@dataclass(frozen=True, slots=True)
class Applied:
    """The last config that was applied, and what that restarted."""

    at: float  # unix time
    plan: str  # an action of plan.Plan, or "start"
    reasons: tuple[str, ...]
    commit: str | None  # of the repo that it came from


@dataclass(frozen=True, slots=True)
class Swap:
    """The last swap: under way while `ended_s` is None."""

    model: str
    came_from: str
    began_s: float  # ago
    eta_s: float | None  # by the model's own last start; None when it never was started here
    took_s: float | None = None
    error: str | None = None  # why the pod serves `came_from` again


@dataclass(frozen=True, slots=True)
class Idle:
    """`stop_in_s` counts down once nothing happens; None while something does; `off` says why it never will."""

    stop_in_s: float | None = None
    off: str | None = None
    stopping: bool = False  # the provider has been asked, and is asked again until the machine dies


@dataclass(frozen=True, slots=True)
class Phase:
    name: str  # as in enginelog.toml: start, download, weights, compile, profile, kv, graphs, ready
    at_s: float  # after the engine's start
    took_s: float | None  # None while it lasts; the engine's own figure where it prints one
    bytes: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    name: str  # a section of docs/faults.md; "unknown" for a fatal line that it does not know
    severity: Literal["fatal", "unknown", "death", "symptom", "warning"]
    line: str  # as the engine logged it
    remedy: str
    figures: Mapping[str, str]  # what the line says in numbers, such as the longest context that fits


@dataclass(frozen=True, slots=True)
class Boot:
    """What an engine's log says: of its start, and of what is wrong with it."""

    phases: tuple[Phase, ...] = ()
    ready: bool = False
    figures: Mapping[str, float] = field(default_factory=dict)  # kv_tokens, kv_gib, weights_gib, concurrency, context…
    kernels: Mapping[str, str] = field(default_factory=dict)  # attention, moe, linear: those that were really retained
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    verdict: Literal["ok", "warn", "no-go"]
    says: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Preflight:
    go: bool
    checks: tuple[Check, ...]
    may_sleep: bool = True  # can the host afford engines that sleep side by side; the check "sleep" says why not


@dataclass(frozen=True, slots=True)
class Status:
    version: str
    pid: int
    uptime_s: float
    serial: int | None  # serial of the pod.toml in force
    model: str | None  # key of the model in force, of [models.<key>]
    config_error: str | None  # why the published config is not the one in force
    engine: Service  # of the model in force
    bridge: Service
    host: Host
    log: tuple[LogLine, ...]  # lines with seq > the `log_after` that was asked for, oldest first, at most 500
    log_next: int  # the `log_after` to ask for next time
    schema: int = SCHEMA
    source: str | None = None  # where the config comes from
    overrides: tuple[str, ...] = ()  # VL_… variables that win over the config
    applied: Applied | None = None
    boot: Boot | None = None  # of the engine of the model in force
    preflight: Preflight | None = None  # the last go or no-go
    patches: Mapping[str, str] = field(default_factory=dict)  # "model: step" -> there, applied, undone, or why not
    sleepers: Mapping[str, Service] = field(default_factory=dict)  # engines of other models that were started here
    live: int | None = None  # turns that hold an engine stream, by the bridges
    clients: int | None = None
    swap: Swap | None = None
    idle: Idle = Idle()
    hub: str | None = None  # what the hub worker last said that it cannot do
    code: str | None = None  # sha256 of the zipapp that runs; None outside of one
