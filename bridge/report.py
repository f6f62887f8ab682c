"""What the bridge says of itself and its pod: the JSON of /pod/report, typed. Frozen values, nothing else.

Times are ages in seconds at the moment `at`, so that a reader needs no clock in common with the pod.
"""

from dataclasses import dataclass
from typing import Any, Literal

TurnPhase = Literal["connecting", "pending", "thinking", "text", "tool"]
"""connecting: no answer's head from the engine yet. pending: head arrived, no token yet (it waits or prefills; the
bridge cannot tell which). thinking, text, tool: the block that is being decoded."""


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    session: str
    agent: str
    model: str
    phase: TurnPhase
    stream: bool
    age_s: float  # since the request arrived
    ttft_s: float | None  # from arrival to the first token; None before it
    last_byte_age_s: float | None  # since the engine last sent anything; None before it did
    input_tokens: int | None  # whole prompt, cached tokens included; None until the engine says
    cached_tokens: int | None
    output_tokens: int
    pings: int


@dataclass(frozen=True, slots=True)
class Agent:
    """One (session, agent) that was seen in the last hour: what it has done, whether or not it has a turn now."""

    session: str
    agent: str
    turns: int  # turns that ended, however they ended
    errors: int
    idle_s: float | None  # since its last turn ended; None while one is live
    last_input_tokens: int | None
    last_cached_tokens: int | None
    last_output_tokens: int | None
    last_ttft_s: float | None
    last_tok_s: float | None  # output tokens per second of decode in its last turn
    last_stop: str | None  # stop_reason of its last turn, or the error type that ended it, or "client_gone"


@dataclass(frozen=True, slots=True)
class Connections:
    """Both ends, counted apart: any lasting difference is a leak."""

    clients: int  # requests whose client is still connected and waits for an answer
    sockets: int  # TCP connections that clients hold open, idle ones included
    upstreams: int  # requests open to the engine
    upstreams_idle: int  # kept-alive connections to the engine with no request on them
    orphans: int  # upstreams whose client has left and that are not closed yet


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters since this bridge process began."""

    turns: int
    completed: int
    failed: int
    client_gone: int
    refused: int  # turned away at `max_streams`
    unauthorized: int
    pings: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class EngineProbe:
    reachable: bool
    error: str | None  # why not, in one line
    elapsed_s: float
    version: str | None
    """Of the engine's /version; ends with "+simulated" for the simulated engine."""
    models: tuple[str, ...]
    max_model_len: int | None
    metrics: str | None  # Prometheus text: the families that the console reads, unchanged


@dataclass(frozen=True, slots=True)
class PodReport:
    version: str
    at: float  # Unix time in seconds, by the pod's clock
    pid: int
    uptime_s: float
    connections: Connections
    totals: Totals
    turns: tuple[Turn, ...]
    agents: tuple[Agent, ...]
    engine: EngineProbe
    bootstrap: dict[str, Any] | None
    """The supervisor's own status (bootstrap.report.Status as JSON); None when its socket does not answer."""
    bootstrap_error: str | None
