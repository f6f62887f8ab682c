"""The ledger of connections on one line, from the clients to the engine: any lasting difference is a leak."""

from __future__ import annotations

from console.format import STALE_S, age, count
from console.rows import Row, Rows, Run, aged, fit
from console.widgets.part import Part
from control.observe.snapshot import Light, Snapshot

WIDE, MIDDLE = 134, 112


class Connections(Part):
    """One line."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        row = connections(snap, width)
        return aged((row,)) if _stale(snap) else (row,)

    def heading(self, snap: Snapshot) -> str:
        return titled("connections", snap) if _stale(snap) else "connections"


def _stale(snap: Snapshot) -> bool:
    """Whether there are counts, and they are old. Dashes have no age."""
    return snap.bridge.clients is not None and bridge_age(snap) is not None


def bridge_age(snap: Snapshot) -> float | None:
    """How old what the bridge said is; None while it is fresh."""
    light = bridge_light(snap)
    return light.age_s if light is not None and light.age_s is not None and light.age_s > STALE_S else None


def bridge_light(snap: Snapshot) -> Light | None:
    return next((light for light in snap.lights if light.name == "bridge"), None)


def titled(title: str, snap: Snapshot) -> str:
    """The title of a part fed by the bridge, with the age of what it shows when that is old."""
    old = bridge_age(snap)
    return title if old is None else f"{title} · {age(old)} old"


def connections(snap: Snapshot, width: int) -> Row:
    """Counts in fixed fields; the words around them are fewer where there is less room."""
    bridge, engine = snap.bridge, snap.engine
    parts = [part for part in (engine.waiting.capacity, engine.waiting.deferred) if part is not None]
    queue = sum(parts) if parts else None
    wide, words = width >= WIDE, width >= MIDDLE
    turns: Row = (*_count("bridge", bridge.turns), ("label", " turns")) if wide else _count("turns", bridge.turns)
    flow: Row = (
        *_count("clients", bridge.clients),
        _ARROW,
        *turns,
        _ARROW,
        *_count("upstream", bridge.upstreams),
        _ARROW,
        *_count("engine", engine.running),
        ("label", " running + " if words else " + "),
        ("plain", count(queue).rjust(2)),
        ("label", " waiting" if words else ""),
    )
    tallies = [
        _tally("orphans", bridge.orphans, 2, alarming=True),
        _tally("refused", bridge.refused, 2, alarming=True),
        _tally("pings", bridge.pings, 3),
        _tally("bridge restarts" if wide else "restarts", bridge.restarts, 2),
    ]
    return fit([flow, *tallies], width, 2 if wide else 1)


_ARROW: Run = ("label", " → ")


def _count(label: str, value: int | None) -> Row:
    return (("label", f"{label} "), ("plain", count(value).rjust(2)))


def _tally(label: str, value: int | None, width: int, *, alarming: bool = False) -> Row:
    """A count that should be zero carries its glyph when it is not; the glyph's cell is always held."""
    watch = alarming and bool(value)
    return (
        ("watch" if watch else "label", f"{'▲' if watch else ' '}{label} "),
        ("watch" if watch else "plain", count(value).rjust(width)),
    )
