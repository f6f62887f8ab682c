"""What is on screen, as text and as colours, without a terminal."""

from __future__ import annotations

from typing import Any

from rich.segment import Segment
from textual.app import App
from textual.strip import Strip


def strips(app: App[Any]) -> list[Strip]:
    """The composed lines of the screen on top, with the filters (NO_COLOR) applied."""
    return app.screen._compositor.render_strips()


def lines(app: App[Any]) -> list[str]:
    return [strip.text.rstrip() for strip in strips(app)]


def pane(app: App[Any]) -> str:
    return "\n".join(lines(app))


def segments(app: App[Any]) -> list[Segment]:
    return [segment for strip in strips(app) for segment in strip]
