"""The vocabulary: frozen, and told apart by type."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from bootstrap.events import Action, Event, Exited


@pytest.mark.parametrize("kind", [*get_args(Event), *get_args(Action)])
def test_every_event_and_action_is_a_frozen_dataclass(kind: type) -> None:
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_events_compare_by_value() -> None:
    assert Exited(1, "exit code 1") == Exited(1, "exit code 1") != Exited(2, "exit code 1")
