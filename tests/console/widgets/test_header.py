"""The header: which pod, and never without the word that its engine is simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.rows import cells, text
from console.widgets.header import cuda, header
from tests.console.snapshots import capacity, healthy, pod, stopped, unknown


def test_wide() -> None:
    assert " ".join(text(header(healthy(), 118)).split()) == (
        "passerelle udpfa0l4z65m09 qwen3-coder · RTX PRO 6000 · vLLM 0.33.0 · CUDA 13.0 (driver 580) · local "
        "up 2 h 14 m"
    )


@pytest.mark.parametrize("width", [58, 78, 98, 118, 158])
def test_a_simulated_engine_is_said_at_every_width(width: int) -> None:
    row = header(capacity(), width)
    assert "SIMULATED ENGINE" in text(row)
    assert "+simulated" not in text(row)
    assert cells(row) <= width


@pytest.mark.parametrize("width", [58, 78])
def test_the_least_needed_is_dropped_whole(width: int) -> None:
    line = text(header(healthy(), width))
    assert "qwen3-coder" in line
    assert "…" not in line


def test_cuda() -> None:
    assert cuda(pod()) == "CUDA 13.0 (driver 580)"
    assert cuda(pod(driver=None)) == "CUDA 13.0"
    assert cuda(pod(cuda=None)) == "driver 580"
    assert cuda(pod(cuda=None, driver=None)) is None
    assert cuda(pod(cuda=None, driver=None, gpu_absent=True)) == "no GPU here"


def test_no_time_up_for_what_does_not_run() -> None:
    assert " up " not in text(header(stopped(), 118))
    assert " up " not in text(header(unknown(), 118))


def test_a_hostile_name_is_harmless() -> None:
    snap = healthy()
    assert "\x1b" not in text(header(replace(snap, engine=replace(snap.engine, model="\x1b[2J")), 118))
