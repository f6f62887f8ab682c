"""Help: every key, light and glyph of this screen. The keys come from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from console.screens.base import ESCAPES, PodScreen
from console.screens.log import LogScreen
from console.widgets.page import Page, Section

SECTIONS: tuple[Section, ...] = (
    Section(
        "Glyphs",
        (
            ("●", "good", "Good."),
            ("▲", "watch", "Watch: it works, and something limits it."),
            ("■", "bad", "Bad: it does not work, or is about to cost you."),
            ("○", "unknown", "Not known, or not running. A figure that is not known is –, never 0."),
            ("4 s", "old", "Dim, with an age: it was true that long ago. Nothing dim is fresh."),
        ),
    ),
    Section(
        "Lights, each one resting on the one before it; the age is since it was last good",
        (
            ("provider", "plain", "The provider answers, and says that the pod runs."),
            ("port", "plain", "The pod's address takes a connection."),
            ("bridge", "plain", "The bridge answers our token with its report."),
            ("scrape", "plain", "The engine's metrics came with it."),
            ("tokens", "plain", "Tokens move while requests run: the only proof that the engine works."),
        ),
    ),
    Section(
        "Agents",
        (
            ("▲ queued", "watch", "The bridge holds it: the engine starts, drains or does not answer yet."),
            ("▲ swapping", "watch", "The bridge holds it until the model that it asks for is there."),
            ("▲ connecting", "watch", "The engine has not begun to answer."),
            ("▲ waiting", "watch", "In the engine's queue. Told from prefill by its first-come-first-served order."),
            ("prefill", "plain", "The engine reads the prompt."),
            ("thinking, text, tool", "plain", "The block that is being decoded."),
            ("■ stalled", "bad", "It decoded, and nothing has come for 20 s."),
            ("idle", "label", "No turn now; the age is since its last one ended."),
        ),
    ),
    Section(
        "Connections, from left to right",
        (
            ("clients", "plain", "Requests whose client still waits for an answer."),
            ("turns", "plain", "Requests that the bridge is answering."),
            ("upstream", "plain", "Requests that the bridge holds open to the engine."),
            ("orphans", "plain", "Upstreams whose client has left: a leak if it lasts."),
            ("refused", "plain", "Turned away because too many streams were open."),
            ("pings", "plain", "Sent to keep a waiting client's connection alive."),
        ),
    ),
)


class HelpScreen(PodScreen):
    """One page, scrolled by the arrow keys."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        *ESCAPES,
        Binding("escape", "back", "back", tooltip="Back to the overview."),
        Binding("question_mark", "back", "back", show=False),
    ]

    def body(self) -> ComposeResult:
        with VerticalScroll(id="page"):
            yield Page(sections())


def sections() -> tuple[Section, ...]:
    """The keys, then what there is to read."""
    log = (one for one in LogScreen.BINDINGS if one not in ESCAPES)
    return (
        Section("Keys", tuple(_keys(PodScreen.BINDINGS))),
        Section("Keys of the log", tuple(_keys(log))),
        *SECTIONS,
    )


def _keys(bindings: Iterable[BindingType]) -> Iterable[tuple[str, str, str]]:
    for binding in bindings:
        if isinstance(binding, Binding) and binding.tooltip:
            name = binding.key_display or {"escape": "Esc", "enter": "Enter"}.get(binding.key, binding.key)
            yield name, "brand", binding.tooltip
