"""The status line: the real client's JSON, and whatever else may come on stdin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.statusline import line, tokens

RECORDED = (Path(__file__).parents[1] / "data" / "claude-code-statusline.jsonl").read_bytes().splitlines()
"""What Claude Code 2.1.332 wrote: at its start, while its first request ran, after the answer."""


def test_the_recorded_session() -> None:
    assert [line(text, 262_144) for text in RECORDED] == [
        "qwen3-coder  window 262k",
        "qwen3-coder  ▓░░░░░░░░░ 13.6k of 262k  5%",
        "qwen3-coder  ▓░░░░░░░░░ 13.7k of 262k  5%",
    ]


def test_the_pods_window_is_the_true_one() -> None:
    """Claude Code assumes a million tokens for a model that it does not know."""
    text = json.dumps(
        {
            "model": {"id": "m"},
            "context_window": {"context_window_size": 1_000_000, "current_usage": {"input_tokens": 230_000}},
        }
    ).encode()
    assert line(text, 262_144) == "m  ▓▓▓▓▓▓▓▓▓░ 230k of 262k  88%  compacts soon"
    assert line(text, None) == "m  ▓▓░░░░░░░░ 230k of 1.00M (guess)  23%"


def test_cached_tokens_fill_the_window_too() -> None:
    usage = {"input_tokens": 1_000, "output_tokens": 500, "cache_read_input_tokens": 60_000}
    text = json.dumps({"model": {"id": "m"}, "context_window": {"current_usage": usage}}).encode()
    assert "61.5k of 100k" in line(text, 100_000)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (999, "999"),
        (13_573, "13.6k"),
        (99_949, "99.9k"),
        (99_951, "100k"),
        (262_144, "262k"),
        (1_048_576, "1.05M"),
    ],
)
def test_tokens(count: int, words: str) -> None:
    assert tokens(count) == words


def test_a_models_name_cannot_write_to_the_terminal() -> None:
    text = json.dumps({"model": {"id": "m\x1b]0;owned\x07\n"}}).encode()
    assert line(text, 10) == "m?]0;owned??  window 10"


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_garbage_is_one_line(stdin: bytes) -> None:
    said = line(stdin, 1_000)
    assert said
    assert "\n" not in said
