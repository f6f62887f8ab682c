"""What the bridge says of itself and its pod: the JSON of /pod/report, typed. Frozen values, nothing else."""

# Times are ages in seconds at the moment `at`, so that a reader needs no clock in common with the pod.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

# queued: the engine starts, drains or does not answer yet, and the request is held. swapping: its model is being
# loaded. connecting: sent, and no head of an answer yet. pending: head arrived, no token yet (it waits or prefills; the
# bridge cannot tell which). thinking, text, tool: the block that is being decoded.
TurnPhase = Literal["queued", "swapping", "connecting", "pending", "thinking", "text", "tool"]


# Of a live request it is the ledger's own; the moments behind its ages are in ledger.Record.
@dataclass(slots=True)
class Turn:
    id: str
    session: str
    agent: str
    model: str  # as it was asked for
    phase: TurnPhase = "connecting"
    stream: bool = False
    age_s: float = 0.0  # since the request arrived
    ttft_s: float | None = None  # from arrival to the first token; None before it
    last_byte_age_s: float | None = None  # since the engine last sent anything; None before it did
    input_tokens: int | None = None  # whole prompt, cached tokens included; None until the engine says
    cached_tokens: int | None = None
    output_tokens: int = 0
    pings: int = 0
    tok_s: float | None = None  # output tokens per second after the first
    client_connected: bool = True
    upstream_open: bool = False
    prefix_break: str | None = None  # where its prompt left its last turn's: from there on nothing was cached
    guarded: str | None = None  # the marker of a whole-file write that leaves a part out
    ended_age_s: float | None = None  # since it ended; None while it lives
    stop: str | None = None  # how it ended: stop_reason, error type or "client_gone"


# Both ends, counted apart: any lasting difference is a leak. No connection to the engine is ever kept idle.
@dataclass(frozen=True, slots=True)
class Connections:
    clients: int  # requests whose client is still connected and waits for an answer
    sockets: int  # TCP connections that clients hold open, idle ones included
    upstreams: int  # requests open to the engine
    orphans: int  # upstreams whose client has left and that are not closed yet
    upstream_sockets: int | None = None  # this process's to the engine, as the kernel counts them


@dataclass(frozen=True, slots=True)
class EngineProbe:
    reachable: bool = False
    error: str | None = None  # why not, in one line
    elapsed_s: float = 0.0
    version: str | None = None  # of the engine's /version; ends with "+simulated" for the simulated engine
    models: tuple[str, ...] = ()
    max_model_len: int | None = None
    metrics: str | None = None  # Prometheus text: the families that the console reads, unchanged
    supports: Mapping[str, bool] | None = None  # by feature, asked once per engine; None until then
    suits: str | None = None  # the mode that suits it, and why


@dataclass(frozen=True, slots=True)
class PodReport:
    version: str
    at: float  # Unix time in seconds, by the pod's clock
    pid: int
    uptime_s: float
    connections: Connections
    totals: Mapping[str, int]  # [counters] of tables.toml, since this bridge process began
    turns: tuple[Turn, ...]
    agents: tuple[Turn, ...]  # the last turn of each (session, agent) that ended one in the last hour, latest first
    engine: EngineProbe
    bootstrap: dict[str, Any] | None  # bootstrap.report.Status as JSON; None when its socket does not answer
    bootstrap_error: str | None
    mode: str = "translate"
    draining: bool = False
    finished: tuple[Turn, ...] = ()  # the last that ended, newest first: as many as ?finished=N asks for
