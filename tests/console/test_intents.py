"""Every intent is acted on by the app, and none is taken for one of Textual's own events."""

from __future__ import annotations

import inspect

import pytest
from textual.message import Message
from textual.screen import Screen

from console import intents
from console.app import PasserelleApp

INTENTS = [
    one for _, one in inspect.getmembers(intents, inspect.isclass) if one.__module__ == intents.__name__
]  # fmt: skip


@pytest.mark.parametrize("intent", INTENTS, ids=lambda intent: intent.__name__)
def test_the_app_acts_on_it(intent: type[Message]) -> None:
    assert intent in PasserelleApp._decorated_handlers


@pytest.mark.parametrize("intent", INTENTS, ids=lambda intent: intent.__name__)
def test_its_name_is_no_event_of_a_screen(intent: type[Message]) -> None:
    """Textual calls on_<name> and _on_<name> by name: a message called Show would run its own handler."""
    assert not hasattr(Screen, intent.handler_name)
    assert not hasattr(Screen, f"_{intent.handler_name}")
