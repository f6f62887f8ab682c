"""The engine's figures: in their columns whatever they are, dimmed when old, and no GPU said plainly."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap.report import Gpu
from console.blank import blank
from console.rows import Rows, cells, text
from console.widgets.engine import engine
from control.models import PodId
from control.observe.snapshot import Waiting
from tests.console.snapshots import AT, GPU, healthy, no_gpu, unreachable
from tests.console.snapshots import engine as view


def words(rows: Rows) -> list[str]:
    return [text(row) for row in rows]


def test_six_lines() -> None:
    lines = words(engine(healthy(), 59, 6))
    assert [line.split()[0] for line in lines] == ["running", "decode", "prefill", "KV", "TTFT", "GPU"]
    assert "6 of 16" in lines[0]
    assert "164 tok/s" in lines[1]
    assert "each    27.3 tok/s" in lines[1]
    assert "47 000 tok/s   hits  89 %" in lines[2]
    assert "495 k of  750 k tokens" in lines[3]
    assert "34 ms" in lines[4]
    assert "612 W   71 °C    131 of 140 GiB" in lines[5]


def test_four_lines_carry_latency_and_gpu_at_their_right() -> None:
    lines = words(engine(healthy(), 78, 4))
    assert [line[60:].split() for line in lines] == [["TTFT", "1.9", "s"], ["ITL", "34", "ms"], ["GPU", "97", "%"],
                                                    ["71", "°C"]]  # fmt: skip


def test_no_gpu_is_a_fact_and_not_known_is_a_dash() -> None:
    assert "no GPU here" in words(engine(no_gpu(), 59, 6))[5]
    assert "no GPU here" in words(engine(no_gpu(), 78, 4))[2]
    assert "no GPU" not in "\n".join(words(engine(blank(PodId("p")), 59, 6)))


def test_several_gpus_are_one_line() -> None:
    snap = healthy()
    two = (GPU, Gpu(1, "x", 10_240.0, 143_360.0, 51.0, 300.0, 80.0))
    line = words(engine(replace(snap, pod=replace(snap.pod, gpus=two)), 59, 6))[5]
    assert re.search(r"2 GPUs +74 % +912 W +80 °C +141 of 280 GiB", line)


def test_waits_carry_their_reason_and_a_glyph() -> None:
    row = engine(replace(healthy(), engine=view(waiting=Waiting(3, 1))), 59, 4)[0]
    assert "▲  3 capacity   1 deferred" in text(row)
    assert [role for role, part in row if part.strip() == "▲  3"] == ["watch"]


def test_an_old_scrape_looks_old() -> None:
    assert {role for row in engine(unreachable(), 59, 6) for role, _ in row} == {"old"}
    assert "old" not in {role for row in engine(healthy(), 59, 6) for role, _ in row}


@pytest.mark.parametrize(("width", "height"), [(58, 4), (78, 4), (59, 6), (59, 11)])
@given(data=st.data())
def test_no_figure_moves_another_or_is_cut(width: int, height: int, data: st.DataObject) -> None:
    """Labels stand in the same cells whatever the figures, and nothing reaches past the width."""
    rate = st.none() | st.floats(0, 99_999)
    part = st.none() | st.floats(0, 1)
    small = st.none() | st.integers(0, 99)
    snap = replace(
        healthy(AT),
        engine=view(
            running=data.draw(small),
            waiting=Waiting(data.draw(small), data.draw(small)),
            decode_tok_s=data.draw(rate),
            prefill_tok_s=data.draw(rate),
            cached_tok_s=data.draw(rate),
            cache_hit_rate=data.draw(part),
            kv_usage=data.draw(part),
            kv_tokens=data.draw(st.none() | st.integers(1, 9_000_000)),
            ttft_p50_s=data.draw(st.none() | st.floats(0, 5000)),
            itl_p50_s=data.draw(st.none() | st.floats(0, 50)),
        ),
    )
    drawn, usual = engine(snap, width, height), engine(healthy(), width, height)
    assert all(cells(row) <= width for row in drawn)
    assert "…" not in "".join(words(drawn))
    for label in ("waiting", "cached", "hits", "tokens", "capacity", "deferred", "TTFT", "ITL"):
        assert [line.find(label) for line in words(drawn)] == [line.find(label) for line in words(usual)]
