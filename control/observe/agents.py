"""One row per (session, agent) out of a report's live turns and the last turns that ended. Pure."""

from __future__ import annotations

from bridge.report import PodReport, Turn
from control.observe.snapshot import AgentPhase, AgentView
from control.observe.state import State, TurnMark
from control.observe.updates import ReportSeen

STALL_S = 20.0
"""Claude Code shows its own stall banner after 20 s without bytes."""

FORGET_IDLE_S = 900.0

ORDER: dict[AgentPhase, int] = {
    "queued": 0,
    "swapping": 0,
    "connecting": 0,
    "waiting": 1,
    "prefill": 2,
    "thinking": 3,
    "text": 3,
    "tool": 3,
    "idle": 4,
}


def agent_rows(state: State, seen: ReportSeen | None, running: int | None, now: float) -> tuple[AgentView, ...]:
    """Rows in a stable order: by session, then by agent with "main" first."""
    if seen is None:
        return ()
    prefilling = _prefilling(seen.report, running)
    live = {_key(turn): turn for turn in sorted(seen.report.turns, key=lambda t: t.age_s)}
    memory = {(a.session, a.agent): a for a in seen.report.agents}
    rows = []
    for key in sorted(live.keys() | memory.keys(), key=lambda k: (k[0], k[1] != "main", k[1])):
        turn, agent = live.get(key), memory.get(key)
        if turn is not None:
            rows.append(_live(turn, agent, prefilling, state.turn_marks))
        elif agent is not None and (agent.ended_age_s or 0.0) <= FORGET_IDLE_S:
            rows.append(_idle(agent))
    return tuple(rows)


def _key(turn: Turn) -> tuple[str, str]:
    return turn.session, turn.agent


def _prefilling(report: PodReport, running: int | None) -> frozenset[str]:
    """Ids of the pending turns that the engine must be prefilling.

    vLLM admits first come, first served, so of the turns without a token the oldest are those that run. Not known
    (running is None): all of them are taken to wait.
    """
    pending = sorted((t for t in report.turns if t.phase == "pending"), key=lambda t: -t.age_s)
    decoding = sum(1 for t in report.turns if t.phase in ("thinking", "text", "tool"))
    return frozenset(t.id for t in pending[: max(0, (running or 0) - decoding)])


def _live(turn: Turn, agent: Turn | None, prefilling: frozenset[str], marks: tuple[TurnMark, ...]) -> AgentView:
    phase: AgentPhase
    if turn.phase != "pending":
        phase = turn.phase
    elif turn.id in prefilling:
        phase = "prefill"
    else:
        phase = "waiting"
    decoding = phase in ("thinking", "text", "tool")
    return AgentView(
        session=turn.session,
        agent=turn.agent,
        phase=phase,
        input_tokens=turn.input_tokens,
        cached_tokens=turn.cached_tokens,
        output_tokens=turn.output_tokens,
        tok_s=_rate(turn, marks) if decoding else None,
        ttft_s=turn.ttft_s,
        age_s=turn.age_s,
        last_byte_age_s=turn.last_byte_age_s,
        stalled=decoding and turn.last_byte_age_s is not None and turn.last_byte_age_s > STALL_S,
        last_stop=agent.stop if agent else None,
        last_input_tokens=agent.input_tokens if agent else None,
    )


def _idle(agent: Turn) -> AgentView:
    return AgentView(
        session=agent.session,
        agent=agent.agent,
        phase="idle",
        input_tokens=agent.input_tokens,
        cached_tokens=agent.cached_tokens,
        output_tokens=agent.output_tokens,
        tok_s=None,
        ttft_s=agent.ttft_s,
        age_s=agent.ended_age_s,
        last_byte_age_s=None,
        stalled=False,
        last_stop=agent.stop,
        last_input_tokens=agent.input_tokens,
    )


def _rate(turn: Turn, marks: tuple[TurnMark, ...]) -> float | None:
    """Its output tokens per second over the last marks that know it; None with fewer than two."""
    known = [m for m in marks if turn.id in m.output_tokens]
    if len(known) < 2:
        return None
    grown = known[-1].output_tokens[turn.id] - known[0].output_tokens[turn.id]
    return grown / (known[-1].at - known[0].at)
