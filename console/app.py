"""The app: follows one Session, holds what the screens show, and alone acts on what the operator wants."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.reactive import reactive

from console import intents, logbook, restarting
from console import stopping as machine
from console.blank import blank
from console.farewell import outcome
from console.logbook import Book
from console.restarting import Restarting
from console.screens.base import PodScreen
from console.screens.findings import FindingsScreen
from console.screens.help import HelpScreen
from console.screens.log import LogScreen
from console.screens.overview import Overview
from console.session import Outcome, Session
from console.stopping import Command, Event, Phase, Stopping
from console.themes import DARK, LIGHT, meanings, named, themes
from control.errors import PasserelleError
from control.models import PodState
from control.observe.snapshot import Snapshot

TICK_S = 0.2
"""How often time alone is looked at while something is under way; the timer rests otherwise."""

SCREENS_BY_NAME: dict[str, type[PodScreen]] = {"log": LogScreen, "findings": FindingsScreen, "help": HelpScreen}


class PasserelleApp(App[Outcome]):
    """One pod on screen."""

    CSS_PATH = "app.tcss"
    TITLE = "passerelle"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+q", "leave", show=False, priority=True)]

    snap: reactive[Snapshot | None] = reactive(None, repaint=False)
    stopping: reactive[Stopping] = reactive(Stopping(), repaint=False)
    restarting: reactive[Restarting] = reactive(Restarting(), repaint=False)
    now: reactive[float] = reactive(0.0, repaint=False)
    book: reactive[Book] = reactive((), repaint=False)

    def __init__(
        self, session: Session, *, theme: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.session = session
        self.clock = clock
        self.leaving = False
        for one in themes():
            self.register_theme(one)
        self.theme = named(theme)
        self.set_reactive(PasserelleApp.snap, blank(session.pod_id))

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return meanings(self.current_theme)

    def get_default_screen(self) -> PodScreen:
        return self._bound(Overview())

    def on_mount(self) -> None:
        self.ticker = self.set_interval(TICK_S, self.tick, pause=True)
        self.run_worker(self.session.run(self.take), name="follow")

    def take(self, snap: Snapshot) -> None:
        """One snapshot: down to the screens, into the log book, and through the machines that wait for it."""
        now = self.clock()
        self.snap = snap
        self.book = logbook.merge(self.book, snap.log)
        self.turn(machine.Seen(PodState(snap.pod.state), snap.at))
        if snap.pod.budget is not None and any(finding.id == "budget-gone" for finding in snap.findings):
            self.turn(machine.OverBudget(snap.pod.budget))
        good = any(light.name == "bridge" and light.state == "good" for light in snap.lights)
        self.restarting = restarting.seen(self.restarting, snap.bridge.restarts, good, now)

    def tick(self) -> None:
        self.now = self.clock()
        self.turn(machine.Tick())
        self.restarting = restarting.tick(self.restarting, self.now)

    def turn(self, event: Event) -> None:
        """One event through the machine of the stop; do what it commands."""
        self.now = self.clock()
        self.stopping, command = machine.step(self.stopping, event, self.now)
        if command is not None:
            call = self.session.stop if command is Command.STOP else self.session.start
            self.run_worker(self.ask_provider(call), name=command.value)

    def watch_stopping(self) -> None:
        """The ticker runs only while time alone changes what is shown."""
        if not self.is_running:
            return
        if machine.ticks(self.stopping) or self.restarting.step is not restarting.Step.IDLE:
            self.ticker.resume()
        else:
            self.ticker.pause()

    watch_restarting = watch_stopping

    async def ask_provider(self, call: Callable[[], Awaitable[None]]) -> None:
        """Stop or start; how the call ends is an event of the machine."""
        try:
            await call()
        except PasserelleError as error:
            self.turn(machine.Failed(error.message, error.remedy))
        else:
            self.turn(machine.Accepted())
        if self.leaving:
            self.action_leave()

    async def ask_bridge(self) -> None:
        try:
            await self.session.restart_bridge()
        except PasserelleError as error:
            self.restarting = restarting.failed(self.restarting, error.message, error.remedy, self.clock())
        else:
            self.restarting = restarting.accepted(self.restarting)

    @on(intents.StopPod)
    def begin_stop(self) -> None:
        self.turn(machine.StopKey())

    @on(intents.StopPodNow)
    def stop_now(self) -> None:
        self.turn(machine.NowKey())

    @on(intents.KeepPod)
    def keep(self) -> None:
        self.turn(machine.KeepKey())
        self.restarting = restarting.dismiss(self.restarting)

    @on(intents.StartPod)
    def start(self) -> None:
        self.turn(machine.StartKey())

    @on(intents.RestartBridge)
    def restart_bridge(self) -> None:
        self.now = self.clock()
        count = self.snap.bridge.restarts if self.snap else None
        asked = restarting.ask(self.restarting, count, self.now)
        if asked is not None:
            self.restarting = asked
            self.run_worker(self.ask_bridge(), name="restart bridge")

    @on(intents.OpenScreen)
    def show(self, intent: intents.OpenScreen) -> None:
        """One screen above the overview at a time."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.push_screen(self._bound(SCREENS_BY_NAME[intent.screen]()))

    @on(intents.CloseScreen)
    def back(self) -> None:
        if len(self.screen_stack) > 1:
            self.pop_screen()

    @on(intents.SwitchTheme)
    def switch_theme(self) -> None:
        self.theme = LIGHT if self.current_theme.dark else DARK

    @on(intents.CloseConsole)
    def action_leave(self) -> None:
        """A stop that is being sent is sent first: leaving must not cut it."""
        if self.stopping.phase is Phase.SENDING:
            self.leaving = True
            return
        self.exit(outcome(self.session.pod_id, self.snap, self.stopping))

    def _bound(self, screen: PodScreen) -> PodScreen:
        """The screen, its state fed from the app's."""
        return screen.data_bind(
            PasserelleApp.snap,
            PasserelleApp.stopping,
            PasserelleApp.restarting,
            PasserelleApp.now,
            PasserelleApp.book,
        )


def run(session: Session, *, theme: str | None = None) -> Outcome:
    """Show one pod until the operator leaves. Blocks; takes the terminal and gives it back.

    A screen that breaks prints its traceback, and its Outcome has `left` false: the farewell is owed all the same.
    """
    app = PasserelleApp(session, theme=theme)
    ended = app.run()
    return ended or replace(outcome(session.pod_id, app.snap, app.stopping), left=False)
