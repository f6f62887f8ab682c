"""The app with a scripted Session: what is on screen, and that each key does what it says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from textual.geometry import Region
from textual.message import Message
from textual.pilot import Pilot

from console import intents
from console.app import PasserelleApp, run
from console.session import Outcome
from console.stopping import OVERDUE_S, Phase
from console.widgets.part import Part
from control.errors import Unreachable
from control.models import PodState
from control.observe.snapshot import Finding, Snapshot
from tests.console.pane import lines, pane, segments
from tests.console.snapshots import (
    AT,
    STATES,
    ScriptedSession,
    bridge,
    crowd,
    healthy,
    pod,
    stopped,
    unreachable,
)

SIZES = [(60, 20), (80, 24), (120, 40), (160, 50)]


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Desk:
    """An app under test, with its session and its clock in hand."""

    app: PasserelleApp
    session: ScriptedSession
    clock: Clock
    pilot: Pilot[Outcome]
    seen: list[Message]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    async def later(self, seconds: float) -> None:
        """Time passes, and the ticker sees it."""
        self.clock.now += seconds
        self.app.tick()
        await self.settle()

    async def show(self, snap: Snapshot) -> None:
        self.app.take(snap)
        await self.settle()

    @property
    def screen(self) -> str:
        return pane(self.app)

    def sent(self) -> list[type[Message]]:
        """Intents in order; the hook sees each one again at every node that it rises through."""
        ours = [message for message in self.seen if type(message).__module__ == intents.__name__]
        return [type(message) for message in {id(message): message for message in ours}.values()]


@asynccontextmanager
async def desk(
    script: Sequence[Snapshot] = (), size: tuple[int, int] = (120, 40), theme: str | None = None
) -> AsyncIterator[Desk]:
    session = ScriptedSession(list(script) or [healthy()])
    clock, seen = Clock(), list[Message]()
    app = PasserelleApp(session, theme=theme, clock=clock)
    async with app.run_test(size=size, message_hook=seen.append) as pilot:
        made = Desk(app, session, clock, pilot, seen)
        await made.settle()
        yield made


@pytest.mark.parametrize("state", STATES)
async def test_every_state_at_every_size(state: str) -> None:
    """Nothing reaches past the edge, no figure is cut, the verdict and the keys are there, and every agent is."""
    snap = STATES[state](AT)
    async with desk([snap]) as d:
        for width, height in SIZES:
            await d.pilot.resize_terminal(width, height)
            await d.settle()
            check(snap, lines(d.app), width, height)


def check(snap: Snapshot, shown: list[str], width: int, height: int) -> None:
    assert len(shown) == height
    assert max(map(len, shown)) <= width
    assert str(snap.pod.id) in shown[0]
    assert ("SIMULATED ENGINE" in shown[0]) == bool(snap.engine.simulated)
    assert "q leave" in shown[-1]
    figures = [line for line in shown if "tok/s" in line or "upstream" in line or "$/h" in line]
    assert len(figures) >= 4
    assert not [line for line in figures if "…" in line]
    rows = [line for line in shown if any(line.lstrip().startswith(one.session[:8]) for one in snap.agents)]
    more = [line for line in shown if line.lstrip().startswith("+")]
    hidden = int(more[0].split()[0]) if more else 0
    assert len(rows) + hidden == len(snap.agents)
    assert not hidden or len(snap.agents) > 6


async def test_the_worst_of_a_crowd_are_shown() -> None:
    async with desk([crowd()], (80, 24)) as d:
        assert "■ stalled" in d.screen
        assert "more: " in d.screen


async def test_the_order_of_the_overview() -> None:
    async with desk() as d:
        places = [d.screen.index(word) for word in (
            "passerelle", "SERVING", "no limit", "money", "engine", "connections", "agents", "log", "s stop"
        )]  # fmt: skip
        assert places == sorted(places)


@pytest.mark.parametrize("size", [(59, 40), (120, 19), (20, 5)])
async def test_too_small_says_the_least_size_and_still_stops(size: tuple[int, int]) -> None:
    async with desk(size=size) as d:
        assert "least 60 × 20" in d.screen
        assert f"here {size[0]} × {size[1]}" in d.screen
        assert "SERVING" not in d.screen
        await d.press("s", "enter")
        assert d.session.calls == ["stop"]


async def test_charts_give_way_first() -> None:
    async with desk(size=(80, 24)) as d:
        assert "peak" not in d.screen
        assert "TTFT" in d.screen
        await d.pilot.resize_terminal(120, 40)
        await d.settle()
        assert "peak" in d.screen
        assert "↑" in d.screen


async def test_an_unreachable_pod_shows_ages_and_is_never_called_stopped() -> None:
    async with desk([unreachable()]) as d:
        assert "UNREACHABLE" in d.screen
        assert "engine · figures 42 s old" in d.screen
        assert "agents · 6 live of 6 · 42 s old" in d.screen
        assert "STOPPED" not in d.screen
        assert "EXITED" not in d.screen


async def test_the_first_picture_is_there_before_the_first_snapshot() -> None:
    app = PasserelleApp(ScriptedSession([]))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "CONNECTING" in pane(app)
        assert ScriptedSession.pod_id in pane(app)


async def test_s_counts_down_and_stops_by_itself() -> None:
    async with desk() as d:
        await d.press("s")
        assert "■ STOPPING in 3 s" in d.screen
        assert "6 streams in flight will be cut" in d.screen
        await d.later(2.5)
        assert "STOPPING in 1 s" in d.screen
        assert d.session.calls == []
        await d.later(0.5)
        assert d.session.calls == ["stop"]
        await d.later(0.1)
        assert "stop sent 0.1 s ago · waiting for the provider" in d.screen
        await d.show(stopped())
        assert "● EXITED, verified" in d.screen
        assert "compute 0 $/h · disk 0.02 $/day · r start again · q leave" in d.screen


async def test_escape_keeps_the_pod() -> None:
    async with desk() as d:
        await d.press("s", "escape")
        assert "STOPPING" not in d.screen
        await d.later(10)
        assert d.session.calls == []


async def test_enter_stops_now_and_a_second_s_does_not() -> None:
    async with desk() as d:
        await d.press("s", "s")
        assert d.session.calls == []
        await d.press("enter")
        assert d.session.calls == ["stop"]


async def test_enter_and_escape_do_nothing_to_the_pod_otherwise() -> None:
    async with desk() as d:
        await d.press("enter", "escape", "r")
        assert d.session.calls == []
        assert d.sent() == []


async def test_a_stop_that_does_not_take_turns_red_and_may_be_tried_again() -> None:
    async with desk() as d:
        await d.press("s", "enter")
        await d.later(OVERDUE_S)
        assert "■ the stop did not take" in d.screen
        await d.press("s")
        assert d.session.calls == ["stop", "stop"]


async def test_a_stop_that_fails_says_why_and_what_to_do() -> None:
    async with desk() as d:
        d.session.fails = Unreachable("the provider does not answer", "stop it on its web page")
        await d.press("s", "enter")
        assert "■ stop failed: the provider does not answer · stop it on its web page · s tries again" in d.screen
        await d.press("escape")
        assert "stop failed" not in d.screen


async def test_a_used_up_budget_stops_the_pod_unless_it_is_taken_back_once() -> None:
    gone = replace(
        healthy(),
        pod=pod(budget=3.5),
        findings=(Finding("budget-gone", "critical", "BUDGET USED UP", "3.78 of 3.50 $ are spent.", "stop it", "d"),),
    )
    async with desk() as at:
        await at.show(gone)
        assert "STOPPING in 30 s" in at.screen
        assert "the budget of 3.50 $ is used up" in at.screen
        await at.press("escape")
        await at.show(gone)
        assert "STOPPING" not in at.screen
        assert at.session.calls == []
    async with desk() as at:
        await at.show(gone)
        await at.later(30.1)
        assert at.session.calls == ["stop"]


async def test_r_starts_a_stopped_pod_and_only_a_stopped_one() -> None:
    async with desk([stopped()]) as d:
        assert "r start again" in lines(d.app)[-1]
        assert "s stop" not in lines(d.app)[-1]
        await d.press("s", "r")
        assert d.session.calls == ["start"]
        assert "start sent" in d.screen
        await d.show(healthy())
        assert "start again" not in lines(d.app)[-1]


async def test_b_restarts_the_bridge_and_says_when_it_is_back() -> None:
    async with desk() as d:
        await d.press("b", "b")
        assert d.session.calls == ["restart bridge"]
        assert "bridge restart accepted" in d.screen
        d.clock.now += 2.4
        await d.show(replace(healthy(AT + 2), bridge=bridge(restarts=2)))
        assert "● bridge is back after 2.4 s" in d.screen
        await d.later(20)
        assert "bridge is back" not in d.screen


async def test_a_restart_that_fails_says_why() -> None:
    async with desk() as d:
        d.session.fails = Unreachable("connection refused", "the pod may be gone")
        await d.press("b")
        assert "■ bridge restart failed: connection refused · the pod may be gone" in d.screen
        await d.press("escape")
        assert "restart failed" not in d.screen


@pytest.mark.parametrize(("key", "word"), [("l", "follows"), ("question_mark", "Glyphs"), ("f", "Lights")])
async def test_screens_open_and_escape_returns(key: str, word: str) -> None:
    async with desk() as d:
        await d.press(key)
        assert word in d.screen
        await d.press("escape")
        assert "no limit found" in d.screen
        assert len(d.app.screen_stack) == 1


async def test_screens_do_not_pile_up() -> None:
    async with desk() as d:
        await d.press("l", "f", "question_mark", "l")
        assert len(d.app.screen_stack) == 2


async def test_the_stop_key_works_on_every_screen() -> None:
    for key in ("l", "f", "question_mark"):
        async with desk() as d:
            await d.press(key, "s")
            assert "■ STOPPING in 3 s" in d.screen
            await d.press("escape")
            assert "STOPPING" not in d.screen
            assert len(d.app.screen_stack) == 2
            await d.press("s", "enter")
            assert d.session.calls == ["stop"]


async def test_every_key_of_the_overview_sends_one_intent() -> None:
    async with desk() as d:
        await d.press("b", "t", "s", "escape", "s", "enter", "l", "escape")
        assert d.sent() == [
            intents.RestartBridge, intents.SwitchTheme, intents.StopPod, intents.KeepPod, intents.StopPod,
            intents.StopPodNow, intents.OpenScreen, intents.CloseScreen,
        ]  # fmt: skip


async def test_q_leaves_the_pod_running_and_says_so() -> None:
    async with desk() as d:
        await d.press("q")
    assert d.app.return_value is not None
    assert (d.app.return_value.left, d.app.return_value.stopped) == (True, False)
    assert "keeps running: 1.69 $/h" in d.app.return_value.farewell


async def test_leaving_after_a_verified_stop() -> None:
    async with desk([stopped()]) as d:
        await d.press("q")
    assert d.app.return_value is not None
    assert d.app.return_value.stopped


async def test_leaving_waits_for_a_stop_that_is_being_sent() -> None:
    async with desk() as d:
        d.app.stopping = replace(d.app.stopping, phase=Phase.SENDING)
        await d.press("q")
        assert d.app.return_value is None
        await d.app.ask_provider(d.session.stop)
    assert d.session.calls == ["stop"]
    assert d.app.return_value is not None
    assert "not verified yet" in d.app.return_value.farewell


def test_a_screen_that_breaks_still_says_that_the_pod_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(app: PasserelleApp) -> None:
        app.set_reactive(PasserelleApp.snap, healthy())

    monkeypatch.setattr(PasserelleApp, "run", broken)
    ended = run(ScriptedSession([]))
    assert not ended.left
    assert "keeps running" in ended.farewell


async def test_control_c_leaves_too() -> None:
    async with desk() as d:
        await d.press("ctrl+c")
    assert d.app.return_value is not None


async def test_a_pod_stopped_elsewhere_is_seen() -> None:
    async with desk([healthy(), stopped(AT + 1)]) as d:
        assert "● EXITED, verified" in d.screen
        assert d.app.stopping.verified_at == AT + 1


async def test_a_silent_provider_does_not_undo_a_verified_stop_nor_make_one() -> None:
    silent = replace(stopped(AT + 1), pod=pod(state=PodState.UNKNOWN))
    async with desk([stopped(), silent]) as d:
        assert d.app.stopping.phase is Phase.EXITED
    async with desk([healthy(), silent]) as d:
        assert d.app.stopping.phase is Phase.READY


async def test_only_what_changed_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second in which only the money moved repaints the money and nothing else."""
    async with desk() as d:
        painted: list[str | None] = []

        def refresh(part: Part, *regions: Region, **how: bool) -> Part:
            painted.append(part.id)
            return part

        monkeypatch.setattr(Part, "refresh", refresh)
        later = healthy(AT)
        await d.show(replace(later, pod=replace(later.pod, cost_accrued=3.7817)))
        assert painted == ["money"]
        painted.clear()
        await d.show(replace(later, pod=replace(later.pod, cost_accrued=3.7817)))
        assert painted == []


async def test_t_switches_to_light_and_back() -> None:
    async with desk() as d:
        await d.press("t")
        assert d.app.theme == "passerelle-light"
        await d.press("t")
        assert d.app.theme == "passerelle-dark"


@pytest.mark.parametrize("theme", ["light", "ansi", "nord", "solarized-light"])
async def test_other_themes_show_the_same_words(theme: str) -> None:
    async with desk() as d:
        dark = d.screen
    async with desk(theme=theme) as d:
        assert d.screen == dark


async def test_no_color_has_no_colour_and_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk([unreachable()]) as d:
        coloured = d.screen
    monkeypatch.setenv("NO_COLOR", "1")
    async with desk([unreachable()]) as d:
        assert d.screen == coloured
        for segment in segments(d.app):
            for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                if colour is not None and not colour.is_default:
                    red, green, blue = colour.get_truecolor()
                    assert red == green == blue


FORBIDDEN = "runpod huggingface_hub asyncssh httpx anthropic fastapi prometheus_client click msgspec psutil"


@pytest.mark.process
def test_the_screen_imports_no_client_of_anything() -> None:
    """A graph of imports cannot see a deferred one; a fresh interpreter can."""
    code = f"import sys, console.app; print([name for name in '{FORBIDDEN}'.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
