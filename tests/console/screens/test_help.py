"""Help leaves out no key, no light, no glyph and no phase."""

from __future__ import annotations

from typing import get_args

from textual.binding import Binding

from console.rows import GLYPH, text
from console.screens.base import PodScreen
from console.screens.help import sections
from console.screens.log import LogScreen
from console.widgets.page import page
from control.observe.snapshot import AgentPhase, LightName


def body() -> str:
    return "\n".join(text(row) for row in page(sections(), 100))


def test_every_key_that_is_shown_anywhere_is_explained() -> None:
    for binding in (*PodScreen.BINDINGS, *LogScreen.BINDINGS):
        assert isinstance(binding, Binding)
        if binding.show:
            assert binding.tooltip
            assert " ".join(binding.tooltip.split()[:4]) in body()


def test_every_light_glyph_and_phase_is_explained() -> None:
    for word in (*get_args(LightName), *GLYPH.values(), *get_args(AgentPhase), "stalled", "orphans"):
        assert word in body()
