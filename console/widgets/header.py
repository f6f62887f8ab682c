"""The first line: which pod, on what, serving what, since when. A simulated engine is never left out of it."""

from __future__ import annotations

from console.format import duration, printable
from console.rows import Row, Rows, cells, spread
from console.widgets.part import Part
from control.models import PodState
from control.observe.snapshot import PodView, Snapshot


class Header(Part):
    """One line."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return (header(snap, width),)


def header(snap: Snapshot, width: int) -> Row:
    """As many facts as fit, the least needed dropped first, the others left in their order."""
    running = snap.pod.state in (PodState.RUNNING, PodState.STARTING)
    up: Row = (("label", "up "), ("plain", duration(snap.pod.uptime_s).rjust(9))) if running else ()
    lead: Row = (("brand", "passerelle"), ("plain", "  "), ("strong", printable(snap.pod.id)))
    if snap.engine.simulated:
        lead = (*lead, ("plain", "  "), ("chip", " SIMULATED ENGINE "))
    facts = _facts(snap)
    room = width - cells(lead) - cells(up) - 2
    while facts and sum(len(text) + 3 for _, _, text in facts) > room:
        facts.remove(max(facts, key=lambda fact: fact[1]))
    facts.sort()
    tail: list[tuple[str, str]] = [("plain" if order == 0 else "label", text) for order, _, text in facts]
    row: Row = lead
    for index, (role, text) in enumerate(tail):
        row = (*row, ("label", "  " if index == 0 else " · "), ("plain" if role == "plain" else "label", text))
    return spread(row, up, width)


def _facts(snap: Snapshot) -> list[tuple[int, int, str]]:
    """(place on the line, how soon to drop, text) of what is known."""
    version = snap.engine.version.removesuffix("+simulated") if snap.engine.version else None
    found = [
        (0, 0, snap.engine.model),
        (1, 2, snap.pod.gpu),
        (2, 4, f"vLLM {version}" if version else None),
        (3, 1, cuda(snap.pod)),
        (4, 3, snap.pod.provider),
    ]
    return [(place, drop, printable(text)) for place, drop, text in found if text]


def cuda(pod: PodView) -> str | None:
    """CUDA 13.0 (driver 580); "no GPU here" only when the pod itself said so."""
    if pod.gpu_absent:
        return "no GPU here"
    driver = f"driver {pod.driver.split('.')[0]}" if pod.driver else None
    if pod.cuda:
        return f"CUDA {pod.cuda} ({driver})" if driver else f"CUDA {pod.cuda}"
    return driver
