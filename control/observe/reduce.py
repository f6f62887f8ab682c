"""(State, Update, now) -> State: the only place where what was polled is remembered. Pure.

A failed poll changes no number: it only lets what was known grow old. `now` is the operator's monotonic clock in
seconds, `wall` its Unix time.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import assert_never

from bootstrap.report import LogLine, Status
from control.observe import rates
from control.observe.rates import Sample
from control.observe.scrape import Counters, EngineMetrics
from control.observe.snapshot import Point
from control.observe.state import HISTORY_S, LOG_LINES, State, TurnMark
from control.observe.updates import PodLost, PodSeen, ReportLost, ReportSeen, Update

TURN_WINDOW_S = 5.0
STATUS_BELIEVED_S = 5.0


def reduce(state: State, update: Update, now: float, wall: float) -> State:
    """Fold one update in."""
    match update:
        case PodSeen():
            return replace(state, pod=update.pod, pod_ok_at=now, pod_error=None)
        case PodLost():
            return replace(state, pod_error=update.error)
        case ReportLost():
            return _lost(state, update, now, wall)
        case ReportSeen():
            return _seen(state, update, now, wall)
        case _:
            assert_never(update)


def _lost(state: State, update: ReportLost, now: float, wall: float) -> State:
    gap = Point(wall, None, None, None, None, None)
    return replace(
        state,
        lost=update,
        lost_since=now if state.lost_since is None else state.lost_since,
        port_ok_at=state.port_ok_at if update.kind == "port" else now,
        history=_trim(state.history, gap),
    )


def _seen(state: State, update: ReportSeen, now: float, wall: float) -> State:
    before = state.seen
    if update.status is None and before is not None and _fresh_status(state, now):
        update = replace(update, status=before.status)
    elif update.status is not None:
        state = replace(state, status_ok_at=now)
    mark = "bridge restart" if before is not None and before.report.pid != update.report.pid else ""
    state = replace(
        _with_log(state, update.status),
        seen=update,
        probe=update.report.engine if update.report.engine.version else state.probe,
        report_ok_at=now,
        port_ok_at=now,
        lost=None,
        lost_since=None,
        turn_marks=_turn_marks(state, update, now),
    )
    if update.metrics is None:
        error = update.error or update.report.engine.error or "the engine answered no metrics"
        gap = Point(wall, None, None, None, None, None, mark)
        return replace(state, scrape_error=error, history=_trim(state.history, gap))
    return _with_metrics(state, update.metrics, now, wall, mark)


def _fresh_status(state: State, now: float) -> bool:
    """One answer of the supervisor that comes too late must not blank what it said a second ago."""
    return state.status_ok_at is not None and now - state.status_ok_at <= STATUS_BELIEVED_S


def _with_metrics(state: State, metrics: EngineMetrics, now: float, wall: float, mark: str) -> State:
    before = state.samples[-1] if state.samples else None
    samples = rates.remember(state.samples, metrics, now)
    after = samples[-1]
    restart = before is not None and rates.restarted(before, after)
    step = rates.growth(before, after) if before is not None else Counters()
    moved = before is not None and (restart or _progress(step) or _kv(state) != metrics.kv_usage)
    preemptions = metrics.counters.preemptions
    if state.preemptions is not None:
        preemptions = state.preemptions + (step.preemptions or 0.0)
    return replace(
        state,
        samples=samples,
        metrics=metrics,
        scrape_ok_at=now,
        first_scrape_at=now if state.first_scrape_at is None else state.first_scrape_at,
        scrape_error=None,
        progress_at=now if moved else state.progress_at,
        preemptions=preemptions,
        history=_trim(state.history, _point(samples, metrics, wall, "engine restart" if restart else mark)),
    )


def _progress(step: Counters) -> bool:
    return any((getattr(step, f.name) or 0) > 0 for f in fields(Counters))


def _kv(state: State) -> float | None:
    """KV usage of the newest point that has one: it moves during a long prefill, when no counter does."""
    return next((p.kv_usage for p in reversed(state.history) if p.kv_usage is not None), None)


def _point(samples: tuple[Sample, ...], metrics: EngineMetrics, wall: float, mark: str) -> Point:
    decode = rates.window(samples, rates.DECODE_WINDOW_S)
    prefill = rates.window(samples, rates.PREFILL_WINDOW_S)
    return Point(
        at=wall,
        prefill_tok_s=prefill.per_second(prefill.grown.prompt_computed) if prefill else None,
        decode_tok_s=decode.per_second(decode.grown.generation) if decode else None,
        cache_hit_rate=hit_rate(prefill.grown) if prefill else None,
        kv_usage=metrics.kv_usage,
        waiting=metrics.waiting,
        mark=mark,
    )


def hit_rate(grown: Counters) -> float | None:
    """Cached over queried prompt tokens; None when none were queried."""
    if grown.cache_queries is None or grown.cache_hits is None or grown.cache_queries <= 0:
        return None
    return grown.cache_hits / grown.cache_queries


def _trim(history: tuple[Point, ...], new: Point) -> tuple[Point, ...]:
    return (*(p for p in history if new.at - HISTORY_S <= p.at < new.at), new)


def _turn_marks(state: State, update: ReportSeen, now: float) -> tuple[TurnMark, ...]:
    mark = TurnMark(now, {turn.id: turn.output_tokens for turn in update.report.turns})
    return (*(m for m in state.turn_marks if now - TURN_WINDOW_S <= m.at < now), mark)


def _with_log(state: State, status: Status | None) -> State:
    if status is None:
        return state
    fresh = status.pid != state.supervisor_pid
    known: tuple[LogLine, ...] = () if fresh else state.log
    last = known[-1].seq if known else -1
    lines = (*known, *(line for line in status.log if line.seq > last))[-LOG_LINES:]
    return replace(state, log=lines, log_next=status.log_next, supervisor_pid=status.pid)
