"""What the supervisor says of itself: the JSON of `status`, typed. Frozen values, nothing else."""

from dataclasses import dataclass
from typing import Literal

VERSION = "0.1.0"  # the project's own; the pod runs from a zipapp, where no package metadata says it

ServiceState = Literal["stopped", "starting", "serving", "backoff", "fatal", "stopping"]
"""starting: its process runs but has not answered yet. serving: it answers. backoff: it died and will be started
again at `next_start_s`. fatal: it died too often; only a restart by hand or a new config leaves this state."""

Level = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that the pod logged, already redacted. `seq` grows by one per line for the life of the supervisor."""

    seq: int
    at: float  # unix time in seconds, by the pod's clock
    source: Literal["bootstrap", "engine", "bridge"]
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


@dataclass(frozen=True, slots=True)
class Host:
    """The machine under the pod. No GPU is a fact (`gpus` empty, `gpu_error` None), a failing nvidia-smi is one."""

    driver: str | None = None
    cuda: str | None = None
    """The highest CUDA version that the driver offers, as nvidia-smi prints it ("13.0")."""
    gpus: tuple[Gpu, ...] = ()
    gpu_error: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    state: ServiceState
    pid: int | None
    since_s: float  # seconds in this state
    restarts: int  # times that it was started again, by the supervisor or by hand, since the supervisor began
    draining: int  # old processes of it that still finish their streams after a restart
    last_exit: str | None
    """How it last ended when nobody asked it to ("killed by SIGKILL", "exit code 1"); None if it never did."""
    next_start_s: float | None  # in backoff: seconds until it is started again
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    version: str
    pid: int
    uptime_s: float
    serial: int | None  # serial of the pod.toml in force
    model: str | None  # key of the model in force, of [models.<key>]
    config_error: str | None
    engine: Service
    bridge: Service
    host: Host
    log: tuple[LogLine, ...]  # lines with seq > the `log_after` that was asked for, oldest first, at most 500
    log_next: int  # the `log_after` to ask for next time
