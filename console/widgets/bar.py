"""The bottom lines while something is being done to the pod: its stop, its start, the bridge's restart."""

from __future__ import annotations

from textual.reactive import reactive

from console.format import clock, dollars, per, printable
from console.restarting import Restarting, Step, late
from console.rows import Row, Rows, wrap
from console.stopping import Phase, Stopping, remaining
from console.widgets.part import Part
from control.models import PodState
from control.observe.snapshot import Snapshot


class Bar(Part):
    """Over the last lines, only while it has something to say. Time is told to it."""

    stopping: reactive[Stopping] = reactive(Stopping(), repaint=False)
    restarting: reactive[Restarting] = reactive(Restarting(), repaint=False)
    now: reactive[float] = reactive(0.0, repaint=False)

    def watch_stopping(self) -> None:
        self.redraw()

    def watch_restarting(self) -> None:
        self.redraw()

    def watch_now(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        """Its height follows what it says; it is gone when it says nothing."""
        width = max(20, self.app_width() - 2)
        rows = bar(self.stopping, self.restarting, self.snap, self.now, width)
        self.display = bool(rows)
        self.set_class(self.stopping.phase is Phase.COUNTDOWN, "-urgent")
        if len(rows) != len(self._rows):
            self.styles.height = max(1, len(rows))
        self.show(rows)

    def app_width(self) -> int:
        """Width of the screen: its own is not known while it is hidden."""
        return self.screen.size.width


def bar(stopping: Stopping, restarting: Restarting, snap: Snapshot | None, now: float, width: int) -> Rows:
    """The stop comes before the bridge: it is the one that costs."""
    if stopping.phase is not Phase.READY:
        return wrap(_stop(stopping, snap, now), width)
    if restarting.step is not Step.IDLE:
        return wrap(_restart(restarting, snap, now), width)
    return ()


def _stop(state: Stopping, snap: Snapshot | None, now: float) -> list[Row]:
    ago = f"{max(0.0, now - state.since):.1f} s ago"
    match state.phase:
        case Phase.READY:
            return []
        case Phase.COUNTDOWN:
            return _countdown(state, snap, now)
        case Phase.SENDING:
            return [(("watch", f"▲ sending stop, began {ago}"),), _says(state)]
        case Phase.WAITING:
            return [(("watch", f"▲ stop sent {ago}"),), (("plain", "waiting for the provider"),), _says(state)]
        case Phase.OVERDUE:
            red = f"■ the stop did not take: sent {now - state.since:.0f} s ago, still not EXITED"
            return [
                (("bad", red),),
                _says(state),
                (("plain", "the pod may still cost money"),),
                _key("s", "tries again"),
            ]
        case Phase.STOP_FAILED:
            return [
                *_failure("stop", state.message, state.remedy),
                _key("s", "tries again"),
                _key("Esc", "puts this away"),
            ]
        case Phase.EXITED:
            return _exited(state, snap)
        case Phase.STARTING:
            return [(("watch", f"▲ start sent {ago}"),), (("plain", "waiting for the provider"),)]
        case Phase.START_FAILED:
            return [*_failure("start", state.message, state.remedy), _key("r", "tries again"), _key("q", "leave")]


def _countdown(state: Stopping, snap: Snapshot | None, now: float) -> list[Row]:
    left = max(1, -int(-remaining(state, now) // 1))
    streams = snap.bridge.turns if snap else None
    cut = {None: "streams in flight not known", 0: "no stream in flight", 1: "1 stream in flight will be cut"}
    words = cut.get(streams, f"{streams} streams in flight will be cut")
    spent = dollars(snap.pod.cost_accrued if snap else None)
    why: list[Row] = []
    if state.budget is not None:
        why = [(("watch", f"▲ the budget of {dollars(state.budget)} is used up"),)]
    return [
        (("alarm", f" ■ STOPPING in {left} s "),),
        *why,
        (("plain", words),),
        (("plain", f"spent {spent}"),),
        (("brand", "Esc"), ("plain", " keeps it, "), ("brand", "Enter"), ("plain", " stops now")),
    ]


def _exited(state: Stopping, snap: Snapshot | None) -> list[Row]:
    verified = f", verified {clock(state.verified_at)}" if state.verified_at is not None else ""
    pieces: list[Row] = [(("good", f"● {state.pod_state}{verified}"),), (("plain", "compute 0 $/h"),)]
    if state.pod_state is PodState.EXITED:
        disk = per(snap.pod.disk_per_day if snap else None, "day")
        pieces += [(("plain", f"disk {disk}"),), _key("r", "start again")]
    return [*pieces, _key("q", "leave")]


def _says(state: Stopping) -> Row:
    return (("label", f"it says {state.pod_state}"),)


def _failure(what: str, message: str, remedy: str) -> list[Row]:
    lines: list[Row] = [(("bad", f"■ {what} failed: {printable(message)}"),)]
    return [*lines, (("plain", printable(remedy)),)] if remedy else lines


def _key(key: str, does: str) -> Row:
    return (("brand", key), ("plain", f" {does}"))


def _restart(state: Restarting, snap: Snapshot | None, now: float) -> list[Row]:
    ago = max(0.0, now - state.since)
    draining = snap.bridge.draining if snap else None
    match state.step:
        case Step.IDLE:
            return []
        case Step.ASKED | Step.ACCEPTED:
            if late(state, now):
                return [(("bad", f"■ bridge not back {ago:.0f} s after its restart"),), _key("b", "tries again")]
            stage = "asked" if state.step is Step.ASKED else "accepted"
            return [(("watch", f"▲ bridge restart {stage}, {ago:.1f} s"),), (("plain", "no stream is cut"),)]
        case Step.BACK:
            old = (
                f"{draining} old one{'s' * (draining > 1)} still finishing streams" if draining else "no stream was cut"
            )
            return [(("good", f"● bridge is back after {state.took_s:.1f} s"),), (("plain", old),)]
        case Step.FAILED:
            return [
                *_failure("bridge restart", state.message, state.remedy),
                _key("b", "tries again"),
                _key("Esc", "puts this away"),
            ]
