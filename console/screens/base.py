"""PodScreen: what every screen over a pod has: its state bound from the app, the operator's keys, the bottom lines."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Footer

from console import intents
from console.logbook import Book
from console.restarting import Restarting, Step
from console.stopping import Phase, Stopping
from console.widgets.bar import Bar
from control.models import PodState
from control.observe.snapshot import Snapshot

STOPPABLE = (Phase.READY, Phase.OVERDUE, Phase.STOP_FAILED)
CAN_START = (Phase.EXITED, Phase.START_FAILED)
DISMISSIBLE = (Phase.OVERDUE, Phase.STOP_FAILED, Phase.START_FAILED)


ESCAPES: tuple[Binding, ...] = (
    Binding("escape", "keep", "keep it", priority=True, tooltip="While it counts down: the pod is not stopped."),
    Binding("escape", "put_away", "put away", priority=True, tooltip="A line that was read goes from the screen."),
)
"""A screen that binds escape to something else lists this first: a stop is taken back wherever one is."""


class PodScreen(Screen[None]):
    """The state comes down; a key goes up as an intent. A key that would do nothing now is not shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "s",
            "stop_pod",
            "stop",
            tooltip="Stop the pod, after 3 s in which Esc takes it back. Nothing more to press: the screen then waits "
            "until the provider says EXITED. When a stop did not take, s tries again.",
        ),
        Binding("enter", "stop_now", "stop now", priority=True, tooltip="While it counts down: stop at once."),
        *ESCAPES,
        Binding("r", "start_pod", "start again", tooltip="Start a pod that is stopped."),
        Binding(
            "b",
            "restart_bridge",
            "restart bridge",
            tooltip="A new bridge takes the connections while the old one finishes its streams: none is cut.",
        ),
        Binding("l", "show('log')", "log", tooltip="The whole log as this screen has seen it."),
        Binding(
            "f", "show('findings')", "explain", tooltip="Everything that limits the pod, in full, each with its lever."
        ),
        Binding("t", "switch_theme", "light/dark", show=False, tooltip="Light or dark colours."),
        Binding("question_mark", "show('help')", "help", key_display="?", tooltip="This page."),
        Binding(
            "q", "leave", "leave", tooltip="Close the screen. The pod keeps running, and what it costs is printed."
        ),
    ]

    snap: reactive[Snapshot | None] = reactive(None, repaint=False)
    stopping: reactive[Stopping] = reactive(Stopping(), repaint=False)
    restarting: reactive[Restarting] = reactive(Restarting(), repaint=False)
    now: reactive[float] = reactive(0.0, repaint=False)
    book: reactive[Book] = reactive((), repaint=False)

    def compose(self) -> ComposeResult:
        yield from self.body()
        yield Footer(show_command_palette=False)
        yield Bar(id="bar").data_bind(PodScreen.snap, PodScreen.stopping, PodScreen.restarting, PodScreen.now)

    def body(self) -> ComposeResult:
        """The parts above the keys."""
        yield from ()

    def watch_stopping(self, was: Stopping, now: Stopping) -> None:
        if (was.phase, was.pod_state) != (now.phase, now.pod_state):
            self.refresh_bindings()

    def watch_restarting(self) -> None:
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        phase = self.stopping.phase
        match action:
            case "stop_now":
                return phase is Phase.COUNTDOWN
            case "keep":
                return phase is Phase.COUNTDOWN
            case "put_away":
                return phase in DISMISSIBLE or self.restarting.step is Step.FAILED
            case "stop_pod":
                return phase in STOPPABLE
            case "start_pod":
                return phase in CAN_START and self.stopping.pod_state is not PodState.TERMINATED
            case "restart_bridge":
                return phase is Phase.READY
            case _:
                return True

    def action_stop_pod(self) -> None:
        self.post_message(intents.StopPod())

    def action_stop_now(self) -> None:
        self.post_message(intents.StopPodNow())

    def action_keep(self) -> None:
        self.post_message(intents.KeepPod())

    def action_put_away(self) -> None:
        self.post_message(intents.KeepPod())

    def action_start_pod(self) -> None:
        self.post_message(intents.StartPod())

    def action_restart_bridge(self) -> None:
        self.post_message(intents.RestartBridge())

    def action_show(self, screen: str) -> None:
        self.post_message(intents.OpenScreen(screen))

    def action_back(self) -> None:
        self.post_message(intents.CloseScreen())

    def action_switch_theme(self) -> None:
        self.post_message(intents.SwitchTheme())

    def action_leave(self) -> None:
        self.post_message(intents.CloseConsole())
