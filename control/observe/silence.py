"""For how long the engine has been seen to compute nothing: by its counters, and by what the turns last heard. Pure."""

from __future__ import annotations

from control.observe.state import State

DECODING = ("thinking", "text", "tool")


def silent_s(state: State, now: float) -> float | None:
    """Seconds; None before the first scrape.

    While this watch has not seen anything move, the bridge's memory counts: a first look at a pod that has been
    frozen for an hour must not call it fresh.
    """
    if state.progress_at is not None:
        return now - state.progress_at
    if state.first_scrape_at is None:
        return None
    return max(now - state.first_scrape_at, _unheard_s(state, now))


def _unheard_s(state: State, now: float) -> float:
    """Since any turn that decodes last got a byte; 0 when none decodes."""
    if state.seen is None or state.report_ok_at is None:
        return 0.0
    turns = [turn for turn in state.seen.report.turns if turn.phase in DECODING]
    ages = [turn.last_byte_age_s for turn in turns if turn.last_byte_age_s is not None]
    return min(ages) + now - state.report_ok_at if ages else 0.0
