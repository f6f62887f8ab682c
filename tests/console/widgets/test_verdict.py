"""The verdict line says one word and five lights, at any width, and never "stopped" of silence."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from bootstrap.report import ServiceState
from console.rows import cells, text
from console.widgets.verdict import ENGINE_WORD, POD_WORD, WORD_WIDTH, verdict, word
from control.models import PodState
from control.observe.snapshot import Verdict
from tests.console.snapshots import STATES, booting, capacity, healthy, stopped, unknown, unreachable, wrong_token


def test_words() -> None:
    found = [word(make()) for make in (healthy, capacity, booting, stopped, unknown, unreachable, wrong_token)]
    assert found == ["SERVING", "SERVING", "BOOTING", "STOPPED", "CONNECTING", "UNREACHABLE", "NO REPORT"]
    assert max(len(one) for one in [*ENGINE_WORD.values(), *found]) <= WORD_WIDTH


def test_every_state_of_a_pod_and_of_its_engine_has_its_word() -> None:
    states = {*get_args(ServiceState), "unknown", "down"}
    assert set(ENGINE_WORD) == states
    for pod_state, engine_state in product(PodState, states):
        snap = unknown()
        snap = replace(
            snap,
            verdict=Verdict.WARNING,
            pod=replace(snap.pod, state=pod_state),
            engine=replace(snap.engine, state=engine_state),
        )
        silent = engine_state == "unknown" and pod_state in POD_WORD
        assert word(snap) == (POD_WORD[pod_state] if silent else ENGINE_WORD[engine_state])
        assert len(word(snap)) <= WORD_WIDTH


def test_the_glyph_judges_and_the_word_says() -> None:
    assert [text(verdict(make(), 118))[0] for make in (healthy, capacity, unreachable, stopped)] == ["●", "▲", "■", "○"]


@pytest.mark.parametrize("width", [58, 78, 118, 158])
@pytest.mark.parametrize("state", STATES)
def test_all_five_lights_at_every_width(state: str, width: int) -> None:
    row = verdict(STATES[state](1000.0), width)
    assert cells(row) <= width
    assert all(name in text(row) for name in ("provider", "port", "bridge", "scrape", "tokens"))
    assert "…" not in text(row)


def test_ages_are_there_from_eighty_columns_on() -> None:
    assert "■ bridge 42s" in text(verdict(unreachable(), 78))


def test_of_a_stopped_pod_only_the_provider_is_expected_to_answer() -> None:
    gone = replace(stopped(), lights=unreachable().lights)
    assert "■" not in text(verdict(gone, 118))
    assert "● provider" in text(verdict(gone, 118))
    assert "○ bridge 42s" in text(verdict(gone, 118))


def test_the_config_in_force() -> None:
    assert text(verdict(healthy(), 118)).endswith("config #41")
    assert text(verdict(replace(healthy(), config_error="line 3"), 118)).endswith("▲ config refused")
    assert "config" not in text(verdict(healthy(), 78))
