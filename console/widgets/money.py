"""What it costs: by the hour, so far, by the day, per million tokens now, and what stays to pay once stopped."""

from __future__ import annotations

from console.format import dollars, per, tight_age
from console.rows import Role, Row, Rows, fit
from console.widgets.engine import stale
from console.widgets.part import Part
from control.models import PodState
from control.observe.snapshot import Snapshot


class Money(Part):
    """One line."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return (money(snap, width),)


def money(snap: Snapshot, width: int) -> Row:
    """Every figure holds its column. When the provider is silent what was spent goes by our own clock and is dimmed."""
    pod = snap.pod
    ended = pod.state in (PodState.EXITED, PodState.TERMINATED)
    late = _provider_late(snap)
    role: Role = "old" if late else "plain"
    rate: Row = (("strong" if not late else "old", per(0.0 if ended else pod.cost_per_hour, "h").rjust(9)),)
    spent: Row = (("label", "spent "), (role, dollars(pod.cost_accrued, 4).rjust(10)), *_budget(snap))
    disk: Row = (("label", "disk "), (role, per(pod.disk_per_day, "day").rjust(10)))
    if ended:
        back: Row = (("label", "when it runs "), (role, per(pod.cost_per_hour, "h").rjust(9)))
        return fit([rate, spent, disk, back], width)
    day = None if pod.cost_per_hour is None else pod.cost_per_hour * 24
    a_day: Row = (("label", "a day "), (role, dollars(day).rjust(8)))
    if late:
        return fit([rate, spent, (("watch", f"▲ provider silent{late}"),), a_day], width)
    return fit([rate, spent, a_day, _per_million(snap), (("label", "stopped: "), *disk)], width)


def _budget(snap: Snapshot) -> Row:
    """What it may spend, beside what it has spent; judged as its findings are."""
    if snap.pod.budget is None:
        return ()
    ids = {finding.id for finding in snap.findings}
    role: Role = "bad" if "budget-gone" in ids else "watch" if "budget-low" in ids else "plain"
    return (("label", " of "), (role, dollars(snap.pod.budget)))


def _provider_late(snap: Snapshot) -> str:
    for light in snap.lights:
        if light.name == "provider" and light.state in ("watch", "bad"):
            return f" {tight_age(light.age_s)}" if light.age_s is not None else " since we look"
    return ""


def _per_million(snap: Snapshot) -> Row:
    """Dollars per million tokens at this decode rate; not known below one token a second, nor of an old rate."""
    rate, cost = snap.engine.decode_tok_s, snap.pod.cost_per_hour
    value = None if stale(snap.engine) or rate is None or cost is None or rate < 1 else cost / 3600 / rate * 1e6
    return (("label", "decode now "), ("plain", per(value, "M").rjust(10)))
