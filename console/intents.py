"""What the operator wants, as messages from screens up to the app, which alone acts on them."""

from __future__ import annotations

from textual.message import Message


class StopPod(Message):
    """Begin the stop of the pod, or try it again."""


class KeepPod(Message):
    """Take the stop back, or put away a line that was read."""


class StopPodNow(Message):
    """Do not wait for the end of the countdown."""


class StartPod(Message):
    """Start the stopped pod again."""


class RestartBridge(Message):
    """A new bridge, without losing a stream."""


class CloseConsole(Message):
    """Close the screen; the pod is left as it is."""


class OpenScreen(Message):
    """Put another screen on top: "log", "help" or "findings"."""

    def __init__(self, screen: str) -> None:
        super().__init__()
        self.screen = screen


class CloseScreen(Message):
    """Return to the screen below."""


class SwitchTheme(Message):
    """Light or dark."""
