"""(State, now) -> Snapshot: what is known now, each figure None once it is too old to be believed. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from bootstrap.report import Host, Service, Status
from control.cost import cost_accrued
from control.models import PodState
from control.observe import rates, rules
from control.observe.agents import agent_rows
from control.observe.lights import lights
from control.observe.reduce import hit_rate
from control.observe.scrape import Counters
from control.observe.silence import DECODING
from control.observe.snapshot import (
    BridgeView,
    EngineState,
    EngineView,
    Finding,
    PodView,
    Snapshot,
    Totals,
    Verdict,
    Waiting,
)
from control.observe.state import State
from control.observe.updates import ReportSeen

BELIEVED_S = 15.0
"""A figure older than this is not shown any more: None, and its light tells the age."""

LATE_S = 0.5
"""A probe that failed after so long was not refused: it waited in vain."""

FLOWING_S = 5.0

STOPPED = (PodState.EXITED, PodState.TERMINATED)


def snapshot(state: State, now: float, wall: float) -> tuple[Snapshot, State]:
    """The moment `now`, and the state with its conditions' clocks moved on."""
    bare = _bare(state, now, wall)
    findings, held = rules.evaluate(bare, state, now)
    return replace(bare, findings=findings, verdict=_verdict(bare, findings)), replace(state, held=held)


def _bare(state: State, now: float, wall: float) -> Snapshot:
    seen = state.seen if _fresh(state.report_ok_at, now) and not _stopped(state) else None
    status = seen.status if seen else None
    engine = _engine(state, seen, now)
    return Snapshot(
        at=wall,
        verdict=Verdict.UNKNOWN,
        findings=(),
        pod=_pod(state, status, wall),
        engine=engine,
        bridge=_bridge(seen),
        agents=agent_rows(state, seen, engine.running, now),
        lights=lights(state, engine, now),
        config_serial=status.serial if status else None,
        config_error=status.config_error if status else None,
        log=state.log,
        history=state.history,
    )


def _fresh(at: float | None, now: float) -> bool:
    return at is not None and now - at <= BELIEVED_S


def _stopped(state: State) -> bool:
    return state.pod is not None and state.pod.state in STOPPED


def _pod(state: State, status: Status | None, wall: float) -> PodView:
    pod = state.pod
    host = status.host if status else Host()
    return PodView(
        id=pod.id if pod else "",
        provider=pod.provider if pod else "",
        state=pod.state.value if pod else PodState.UNKNOWN.value,
        gpu=host.gpus[0].name if host.gpus else (pod.gpu if pod else None),
        url=pod.url if pod else None,
        cost_per_hour=pod.price.per_hour if pod else None,
        cost_accrued=cost_accrued(pod, wall) if pod else None,
        disk_per_day=pod.price.disk_per_day if pod else None,
        cuda=host.cuda,
        driver=host.driver,
        gpu_absent=status is not None and not host.gpus and host.gpu_error is None,
        gpus=host.gpus,
        uptime_s=wall - pod.started_at if pod and pod.started_at is not None else None,
        note=pod.note if pod else "",
        budget=pod.budget if pod else None,
    )


def _engine(state: State, seen: ReportSeen | None, now: float) -> EngineView:
    service = seen.status.engine if seen and seen.status else None
    is_now = engine_state(state, seen, service, now)
    probe = state.probe if is_now == "serving" else None
    metrics = state.metrics if is_now == "serving" and _fresh(state.scrape_ok_at, now) else None
    decode = rates.window(state.samples, rates.DECODE_WINDOW_S) if metrics else None
    prefill = rates.window(state.samples, rates.PREFILL_WINDOW_S) if metrics else None
    ttft, itl = rates.latency(state.samples, 0.5) if metrics else (None, None)
    version = probe.version if probe else None
    return EngineView(
        state=is_now,
        model=(probe.models[0] if probe and probe.models else None) or (metrics.model if metrics else None),
        version=version,
        simulated=version.endswith("+simulated") if version else None,
        max_model_len=probe.max_model_len if probe else None,
        max_num_seqs=_max_num_seqs(service),
        running=metrics.running if metrics else None,
        waiting=Waiting(metrics.waiting_capacity, metrics.waiting_deferred) if metrics else Waiting(None, None),
        kv_usage=metrics.kv_usage if metrics else None,
        kv_tokens=metrics.kv_tokens if metrics else None,
        prefill_tok_s=prefill.per_second(prefill.grown.prompt_computed) if prefill else None,
        cached_tok_s=prefill.per_second(prefill.grown.prompt_cached) if prefill else None,
        decode_tok_s=decode.per_second(decode.grown.generation) if decode else None,
        cache_hit_rate=hit_rate(prefill.grown) if prefill else None,
        ttft_p50_s=ttft,
        itl_p50_s=itl,
        preemptions=_whole(state.preemptions) if metrics else None,
        restarts=service.restarts if service else None,
        totals=_totals(metrics.counters if metrics else Counters()),
        prefill_window_s=prefill.seconds if prefill else None,
        decode_window_s=decode.seconds if decode else None,
        scrape_age_s=None if state.scrape_ok_at is None else now - state.scrape_ok_at,
    )


def _max_num_seqs(service: Service | None) -> int | None:
    """The argument of --max-num-seqs; None where vLLM's own default is in force."""
    argv = service.command if service else ()
    for flag, value in pairwise(argv):
        if flag == "--max-num-seqs" and value.isdigit():
            return int(value)
    return None


def engine_state(state: State, seen: ReportSeen | None, service: Service | None, now: float) -> EngineState:
    """What the supervisor says of its process, corrected by whether the engine answers.

    A busy engine answers its /metrics late, or not within the bridge's patience, and is not down for that: not while
    its tokens flow, nor until the last scrape is too old to be believed. One that refuses connections is down at once.
    """
    if _stopped(state):
        return "stopped"
    if seen is None:
        return "unknown"
    if service is not None and service.state != "serving":
        return service.state
    probe = seen.report.engine
    late = probe.elapsed_s >= LATE_S and _fresh(state.scrape_ok_at, now)
    return "serving" if probe.reachable or late or _tokens_flow(seen) else "down"


def _tokens_flow(seen: ReportSeen) -> bool:
    ages = [turn.last_byte_age_s for turn in seen.report.turns if turn.phase in DECODING]
    return any(age is not None and age < FLOWING_S for age in ages)


def _totals(counters: Counters) -> Totals:
    return Totals(
        prompt_computed=_whole(counters.prompt_computed),
        prompt_cached=_whole(counters.prompt_cached),
        generation=_whole(counters.generation),
        preemptions=_whole(counters.preemptions),
        cache_queries=_whole(counters.cache_queries),
        cache_hits=_whole(counters.cache_hits),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _bridge(seen: ReportSeen | None) -> BridgeView:
    if seen is None:
        return BridgeView(None, None, None, None, None, None, None, None, None, None)
    report, service = seen.report, seen.status.bridge if seen.status else None
    return BridgeView(
        clients=report.connections.clients,
        turns=len(report.turns),
        upstreams=report.connections.upstreams,
        orphans=report.connections.orphans,
        pings=report.totals.get("pings"),
        refused=report.totals.get("refused"),
        restarts=service.restarts if service else None,
        draining=service.draining if service else None,
        completed=report.totals.get("completed"),
        failed=report.totals.get("failed"),
    )


def _verdict(bare: Snapshot, findings: tuple[Finding, ...]) -> Verdict:
    if bare.pod.state in {s.value for s in STOPPED}:
        return Verdict.STOPPED
    by_id = {finding.id for finding in findings}
    if by_id & {"pod-unreachable", "bridge-unreachable"}:
        return Verdict.UNREACHABLE
    severities = {finding.severity for finding in findings}
    if "critical" in severities:
        return Verdict.CRITICAL
    if bare.engine.state == "unknown" and "warning" not in severities:
        return Verdict.UNKNOWN
    return Verdict.WARNING if "warning" in severities else Verdict.HEALTHY
