"""The verdict line says one word and five lights, at any width, and never "stopped" of silence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.rows import cells, text
from console.widgets.verdict import ENGINE_WORD, WORD_WIDTH, verdict, word
from tests.console.snapshots import STATES, booting, capacity, healthy, stopped, unknown, unreachable, wrong_token


def test_words() -> None:
    found = [word(make()) for make in (healthy, capacity, booting, stopped, unknown, unreachable, wrong_token)]
    assert found == ["SERVING", "SERVING", "BOOTING", "STOPPED", "CONNECTING", "UNREACHABLE", "NO REPORT"]
    assert max(len(one) for one in [*ENGINE_WORD.values(), *found]) <= WORD_WIDTH


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
