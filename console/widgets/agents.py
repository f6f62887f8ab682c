"""One row per (session, agent): what it does, its tokens, its speed, and how long nothing has come for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.format import age, clip, count, decimal, latency, percent, printable
from console.rows import Role, Row, Rows, aged
from console.widgets.connections import bridge_age, bridge_light, titled
from console.widgets.part import Part
from control.observe.snapshot import AgentView, Snapshot, Verdict

GOOD_STOPS = frozenset({"end_turn", "tool_use", "stop_sequence", "pause_turn", "client_gone"})
"""Ends of a turn that say nothing bad of the pod."""


class Agents(Part):
    """A head line, then rows; "+N more" when they do not all fit."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        drawn = agents(snap.agents, width, height)
        if not snap.agents:
            return (*drawn, (("label", _nobody(snap)),))
        return aged(drawn) if bridge_age(snap) is not None else drawn

    def heading(self, snap: Snapshot) -> str:
        live = sum(agent.phase != "idle" for agent in snap.agents)
        return titled(f"agents · {live} live of {len(snap.agents)}", snap) if snap.agents else "agents"


def _nobody(snap: Snapshot) -> str:
    if snap.verdict is Verdict.STOPPED:
        return "none: the pod is stopped"
    light = bridge_light(snap)
    if light is None or light.state != "good":
        return "not known: the bridge has not answered"
    return "no agent yet: point Claude Code at this pod"


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    width: int
    """Cells, without the blank before it."""
    needs: int
    """Least width of the part at which it is drawn."""
    left: bool = False


COLUMNS = (
    Column("session", 8, 0, left=True),
    Column("agent", 14, 0, left=True),
    Column("phase", 12, 0, left=True),
    Column("context", 10, 0),
    Column("cached", 6, 66),
    Column("out", 6, 74),
    Column("tok/s", 6, 0),
    Column("TTFT", 7, 96),
    Column("age", 6, 0),
    Column("last byte", 10, 96),
    Column("last end", 20, 110, left=True),
)
_GLYPHED = ("phase", "last end")
"""Columns whose first two cells are for a glyph."""
SLOW_CONNECT_S = 5.0
"""An engine that takes longer to begin an answer is worth a glyph."""
NARROW_AGENT, WIDE_AGENT = 11, 24
"""Width of the agent's name where there is little room or much."""


def agents(found: Sequence[AgentView], width: int, height: int) -> Rows:
    """The worst are chosen when not all fit; the chosen keep their places by session, so that no row jumps."""
    columns = [column for column in COLUMNS if width >= column.needs]
    if width < 66 or width >= 130:
        columns[1] = Column("agent", NARROW_AGENT if width < 66 else WIDE_AGENT, 0, left=True)
    room = height - 1
    chosen = set(range(len(found)))
    if len(found) > room:
        worst = sorted(chosen, key=lambda index: _rank(found[index]))
        chosen = set(worst[: max(0, room - 1)])
    shown = sorted(
        (found[index] for index in chosen), key=lambda agent: (agent.session, agent.agent != "main", agent.agent)
    )
    rows = [_head(columns)]
    for index, agent in enumerate(shown):
        after = shown[index + 1] if index + 1 < len(shown) else None
        rows.append(_row(agent, _branch(agent, shown, after), columns))
    hidden = len(found) - len(shown)
    if hidden:
        rows.append((("label", f"+{hidden} more: {_hidden(found, chosen)}"),))
    return tuple(rows[:height])


def _hidden(found: Sequence[AgentView], chosen: set[int]) -> str:
    left = [agent for index, agent in enumerate(found) if index not in chosen]
    idle = sum(agent.phase == "idle" for agent in left)
    return f"{idle} idle" if idle == len(left) else f"{len(left) - idle} live, {idle} idle"


def _rank(agent: AgentView) -> tuple[int, float]:
    """Worst first: stalled, waiting, not connected, prefilling, decoding; then idle, those that ended badly first."""
    if agent.stalled:
        return 0, -(agent.age_s or 0.0)
    if agent.phase == "idle":
        return (5 if _bad_end(agent) else 6), agent.age_s or 0.0
    order = {"waiting": 1, "connecting": 2, "prefill": 3}
    return order.get(agent.phase, 4), -(agent.age_s or 0.0)


def _branch(agent: AgentView, shown: Sequence[AgentView], after: AgentView | None) -> str:
    """Sub-agents hang under their session's main one, when it is shown."""
    rooted = any(other.session == agent.session and other.agent == "main" for other in shown)
    if agent.agent == "main" or not rooted:
        return ""
    return "├ " if after is not None and after.session == agent.session else "└ "


def _head(columns: Sequence[Column]) -> Row:
    titles = [
        f"{'  ' if column.title in _GLYPHED else ''}{column.title}".ljust(column.width)
        if column.left
        else column.title.rjust(column.width)
        for column in columns
    ]
    return (("label", " ".join(titles)),)


def _row(agent: AgentView, branch: str, columns: Sequence[Column]) -> Row:
    idle = agent.phase == "idle"
    values = _values(agent, branch, columns[1].width)
    runs: list[tuple[Role, str]] = []
    for index, column in enumerate(columns):
        role, value = values[column.title]
        value = clip(value, column.width)
        cell = value.ljust(column.width) if column.left else value.rjust(column.width)
        runs.append(("label" if idle and role == "plain" else role, (" " if index else "") + cell))
    return tuple(runs)


def _values(agent: AgentView, branch: str, agent_width: int) -> dict[str, tuple[Role, str]]:
    share = agent.cached_tokens / agent.input_tokens if agent.cached_tokens is not None and agent.input_tokens else None
    idle = agent.phase == "idle"
    end: tuple[Role, str] = ("label", f"  {agent.last_stop or ''}" if idle else "")
    if idle and _bad_end(agent):
        end = ("watch", f"▲ {printable(agent.last_stop or '')}")
    return {
        "session": ("label", printable(agent.session)[:8]),
        "agent": ("plain", branch + clip(printable(agent.agent), agent_width - len(branch))),
        "phase": _phase(agent),
        "context": _context(agent),
        "cached": ("plain", percent(share)),
        "out": ("plain", count(agent.output_tokens)),
        "tok/s": ("plain", decimal(agent.tok_s)),
        "TTFT": ("plain", latency(agent.ttft_s)),
        "age": ("plain", age(agent.age_s)),
        "last byte": ("bad" if agent.stalled else "plain", "" if idle else latency(agent.last_byte_age_s)),
        "last end": end,
    }


def _context(agent: AgentView) -> tuple[Role, str]:
    """Tokens of the prompt; while the engine has not counted them, about as many as last time."""
    if agent.input_tokens is None and agent.last_input_tokens is not None:
        return "label", f"~{count(agent.last_input_tokens)}"
    return "plain", count(agent.input_tokens)


def _phase(agent: AgentView) -> tuple[Role, str]:
    if agent.stalled:
        return "bad", "■ stalled"
    if agent.phase in ("queued", "swapping", "waiting") or (
        agent.phase == "connecting" and (agent.age_s or 0.0) > SLOW_CONNECT_S
    ):
        return "watch", f"▲ {agent.phase}"
    if agent.phase == "idle":
        return "label", "  idle"
    return "plain", f"  {agent.phase}"


def _bad_end(agent: AgentView) -> bool:
    return agent.last_stop is not None and agent.last_stop not in GOOD_STOPS
