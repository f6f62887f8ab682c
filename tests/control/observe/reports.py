"""Reports and scrapes written by hand, for the tests of observe/."""

from __future__ import annotations

from dataclasses import replace

from bootstrap.report import Host, LogLine, Service, Status
from bridge.report import Connections, EngineProbe, PodReport, Turn
from control.models import Pod, PodId, PodState, Price
from control.observe.scrape import Counters, EngineMetrics
from control.observe.updates import ReportSeen

POD = Pod(
    id=PodId("local-0001"),
    provider="local",
    state=PodState.RUNNING,
    price=Price(0.74),
    gpu=None,
    url="http://127.0.0.1:8080",
    created_at=1_000.0,
    started_at=1_000.0,
    billed_s=0.0,
)


def turn(name: str, phase: str = "text", age: float = 5.0, out: int = 10, last: float | None = 0.1) -> Turn:
    return Turn(
        id=name,
        session=name,
        agent="main",
        model="m",
        phase=phase,  # type: ignore[arg-type]
        stream=True,
        age_s=age,
        ttft_s=1.0 if phase in ("text", "thinking", "tool") else None,
        last_byte_age_s=last,
        input_tokens=100,
        cached_tokens=None,
        output_tokens=out,
        pings=0,
    )


def agent(name: str, idle: float = 3.0) -> Turn:
    """The last turn that an agent ended."""
    ended = Turn(f"ended-{name}", name, "main", "m", "tool", True, 60.0, 0.5, idle, 90, 80, 20, 0, tok_s=30.0)
    return replace(ended, ended_age_s=idle, stop="tool_use")


def service(state: str = "serving", **changes: object) -> Service:
    values: dict[str, object] = {
        "state": state,
        "pid": 7,
        "since_s": 60.0,
        "restarts": 0,
        "draining": 0,
        "last_exit": None,
        "next_start_s": None,
        "command": ("vllm", "serve"),
    } | changes
    return Service(**values)  # type: ignore[arg-type]


def status(pid: int = 1, log: tuple[LogLine, ...] = (), **changes: object) -> Status:
    values: dict[str, object] = {
        "version": "0",
        "pid": pid,
        "uptime_s": 60.0,
        "serial": 3,
        "model": "m",
        "config_error": None,
        "engine": service(),
        "bridge": service(),
        "host": Host(),
        "log": log,
        "log_next": log[-1].seq if log else 0,
    } | changes
    return Status(**values)  # type: ignore[arg-type]


def metrics(start: float = 1.0, usage: float = 0.5, **counters: float) -> EngineMetrics:
    zero = {"prompt_computed": 0.0, "prompt_cached": 0.0, "generation": 0.0, "preemptions": 0.0}
    known = {"cache_queries": 0.0, "cache_hits": 0.0, "finished": 0.0}
    return EngineMetrics(
        start_time=start,
        model="m",
        running=1,
        waiting=0,
        waiting_capacity=0,
        waiting_deferred=0,
        kv_usage=usage,
        kv_tokens=1_000,
        counters=Counters(**(zero | known | counters)),
    )


def seen(
    scraped: EngineMetrics | None = None,
    supervisor: Status | None = None,
    turns: tuple[Turn, ...] = (),
    agents: tuple[Turn, ...] = (),
    reachable: bool = True,
    orphans: int = 0,
    elapsed: float = 0.01,
) -> ReportSeen:
    """`elapsed` in seconds: how long the bridge's look at the engine took."""
    version, models = ("0.32.0", ("m",)) if reachable else (None, ())
    report = PodReport(
        version="0",
        at=0.0,
        pid=9,
        uptime_s=60.0,
        connections=Connections(len(turns), len(turns), len(turns) + orphans, orphans),
        totals={},
        turns=turns,
        agents=agents,
        engine=EngineProbe(reachable, None if reachable else "refused", elapsed, version, models, 1000, None, {}),
        bootstrap=None,
        bootstrap_error=None,
    )
    return ReportSeen(report, supervisor, scraped)
