"""What a rule looks at: one snapshot, and the figures that rules derive from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from control.observe.silence import silent_s
from control.observe.snapshot import Snapshot
from control.observe.state import State


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule looks at."""

    snap: Snapshot
    state: State
    now: float

    @property
    def silent_s(self) -> float:
        """Seconds since the engine was last seen to compute anything."""
        return silent_s(self.state, self.now) or 0.0

    @property
    def lost_s(self) -> float:
        return 0.0 if self.state.lost_since is None else self.now - self.state.lost_since

    @property
    def waiting(self) -> int:
        waiting = self.snap.engine.waiting
        return (waiting.capacity or 0) + (waiting.deferred or 0)

    @property
    def prefilling(self) -> int:
        return sum(1 for agent in self.snap.agents if agent.phase == "prefill")

    @property
    def kv_free(self) -> float | None:
        """Tokens of the KV cache that no running request holds."""
        engine = self.snap.engine
        if engine.kv_usage is None or engine.kv_tokens is None:
            return None
        return engine.kv_tokens * (1 - engine.kv_usage)

    @property
    def next_prompt(self) -> int | None:
        """Tokens of the smallest prompt that waits, as far as its agent's last one tells; else of the usual one."""
        waiting = [a.last_input_tokens for a in self.snap.agents if a.phase == "waiting"]
        known = [tokens for tokens in waiting if tokens]
        if known:
            return min(known)
        others = sorted(a.input_tokens for a in self.snap.agents if a.input_tokens)
        return others[len(others) // 2] if others else None
