"""The answer: one word, then the ladder of lights, each with how long ago it was last good."""

from __future__ import annotations

from console.format import STALE_S, tight_age
from console.rows import GLYPH, Row, Rows, State, cells, spread
from console.widgets.part import Part
from control.models import PodState
from control.observe.snapshot import EngineState, Light, Snapshot, Verdict

JUDGED: dict[Verdict, State] = {
    Verdict.HEALTHY: "good",
    Verdict.WARNING: "watch",
    Verdict.CRITICAL: "bad",
    Verdict.UNREACHABLE: "bad",
    Verdict.STOPPED: "unknown",
    Verdict.UNKNOWN: "unknown",
}
ENGINE_WORD: dict[EngineState, str] = {
    "unknown": "NO REPORT",
    "preflight": "CHECKING",
    "starting": "BOOTING",
    "downloading": "DOWNLOADING",
    "loading": "LOADING",
    "serving": "SERVING",
    "down": "ENGINE DOWN",
    "backoff": "RESTARTING",
    "fatal": "ENGINE DEAD",
    "draining": "DRAINING",
    "stopping": "STOPPING",
    "asleep": "ASLEEP",
    "stopped": "ENGINE OFF",
}
POD_WORD: dict[str, str] = {
    PodState.STARTING: "POD STARTS",
    PodState.STOPPING: "POD STOPS",
    PodState.ERROR: "POD ERROR",
}
"""Before the engine's word, while that says nothing."""

WORD_WIDTH = 11


class VerdictLine(Part):
    """One line."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return (verdict(snap, width),)


def word(snap: Snapshot) -> str:
    """STOPPED and UNREACHABLE are the pod's; otherwise what its engine does."""
    match snap.verdict:
        case Verdict.STOPPED:
            return "STOPPED"
        case Verdict.UNREACHABLE:
            return "UNREACHABLE"
        case Verdict.UNKNOWN:
            return "CONNECTING"
        case _ if snap.engine.state == "unknown" and snap.pod.state in POD_WORD:
            return POD_WORD[snap.pod.state]
        case _:
            return ENGINE_WORD[snap.engine.state]


def verdict(snap: Snapshot, width: int) -> Row:
    """Wide: lights and the config in force. Narrow: lights. Narrower still: lights without ages."""
    state = JUDGED[snap.verdict]
    head: Row = ((state, f"{GLYPH[state]} "), ("strong" if state == "unknown" else state, word(snap).ljust(WORD_WIDTH)))
    wide = width >= 96
    lights = [_light(light, expected=_expected(light, snap)) for light in snap.lights]
    row = _line(head, lights, "   " if wide else " ")
    if cells(row) > width:
        row = _line(head, [part[:2] for part in lights], " ")
    return spread(row, _config(snap) if wide else (), width)


def _line(head: Row, lights: list[Row], gap: str) -> Row:
    row = head
    for light in lights:
        row = (*row, ("plain", gap), *light)
    return row


def _expected(light: Light, snap: Snapshot) -> bool:
    """Of a stopped pod only the provider is expected to answer."""
    return light.name == "provider" or snap.verdict is not Verdict.STOPPED


def _light(light: Light, *, expected: bool) -> Row:
    if not expected:
        light = Light(light.name, "unknown", light.age_s)
    old = light.age_s is None or light.age_s > STALE_S
    return (
        (light.state, f"{GLYPH[light.state]} "),
        ("plain" if light.state == "good" else light.state, light.name),
        ("old" if old and light.state in ("good", "unknown") else "label", tight_age(light.age_s).rjust(4)),
    )


def _config(snap: Snapshot) -> Row:
    if snap.config_error:
        return (("watch", "▲ config refused"),)
    if snap.config_serial is None:
        return ()
    return (("label", "config "), ("plain", f"#{snap.config_serial}"))
