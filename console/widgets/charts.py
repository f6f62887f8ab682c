"""Five minutes on one time axis: decode, prefill, cache hits, KV, waiting, with marks for what happened."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

from console.format import UNKNOWN, count, percent, printable, sparkline
from console.rows import Row, Rows, clip
from console.widgets.part import Part
from control.observe.snapshot import Point, Snapshot

SPAN_S = 300.0
LABEL, PEAK = 8, 12

Pick = Callable[[Point], float | None]
SERIES: tuple[tuple[str, Pick, float | None, str], ...] = (
    ("decode", lambda point: point.decode_tok_s, None, "tok/s"),
    ("prefill", lambda point: point.prefill_tok_s, None, "tok/s"),
    ("hits", lambda point: point.cache_hit_rate, 1.0, ""),
    ("KV", lambda point: point.kv_usage, 1.0, ""),
    ("waiting", lambda point: point.waiting, None, ""),
)
"""Label, value, fixed top of its scale (None: the peak on screen), unit."""


class Charts(Part):
    """One line per series, or two where there is room, and the axis."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return charts(snap, width, height)


def charts(snap: Snapshot, width: int, height: int) -> Rows:
    """Columns are bins of absolute time, so the picture moves by whole columns and never shimmers."""
    across = max(10, width - LABEL - PEAK - 1)
    bin_s = SPAN_S / across
    last = math.floor(snap.at / bin_s)
    bins = _bins(snap.history, last, across, bin_s)
    tall = 2 if height >= 2 * len(SERIES) + 1 else 1
    drawn: list[Row] = []
    for label, pick, fixed, unit in SERIES:
        drawn.extend(_series(label, [_mean(points, pick) for points in bins], fixed, unit, tall))
    drawn.append((("plain", " " * LABEL), *_axis(snap.history, last, across, bin_s)))
    return tuple(clip(row, width) for row in drawn[:height])


def _bins(history: Sequence[Point], last: int, across: int, bin_s: float) -> list[list[Point]]:
    bins: list[list[Point]] = [[] for _ in range(across)]
    for point in history:
        column = across - 1 - (last - math.floor(point.at / bin_s))
        if 0 <= column < across:
            bins[column].append(point)
    return bins


def _mean(points: Sequence[Point], pick: Pick) -> float | None:
    known = [value for point in points if (value := pick(point)) is not None]
    return sum(known) / len(known) if known else None


def _series(label: str, values: Sequence[float | None], fixed: float | None, unit: str, tall: int) -> list[Row]:
    known = [value for value in values if value is not None]
    peak = max(known) if known else None
    figure = UNKNOWN if peak is None else percent(peak) if fixed else count(math.ceil(peak))
    lines = sparkline(values, fixed or max(peak or 0.0, 1.0), tall)
    rows: list[Row] = [(("plain", " " * LABEL), ("chart", line)) for line in lines[:-1]]
    rows.append(
        (
            ("label", f"{label:<{LABEL}}"),
            ("chart", lines[-1]),
            ("plain", figure.rjust(PEAK - 5)),
            ("label", f" {unit:<5}"),
        )
    )
    return rows


def _axis(history: Sequence[Point], last: int, across: int, bin_s: float) -> Row:
    """Minutes from the left to "now", and each mark under its moment; a later mark covers an earlier one."""
    cells = list("─" * across)
    for minute in range(1, 5):
        cells[across - 1 - round(minute * 60 / bin_s)] = "┴"
    room = across - len(_NOW)
    marked: set[int] = set()
    for point in history:
        column = across - 1 - (last - math.floor(point.at / bin_s))
        if point.mark and 0 <= column < across:
            after, before = f"↑ {printable(point.mark)} ", f" {printable(point.mark)} ↑"
            if column + len(after) <= room:
                marked.update(_write(cells, column, after))
            elif len(before) <= column + 1:
                marked.update(_write(cells, column + 1 - len(before), before))
            else:
                marked.update(_write(cells, column, "↑"))
    for start, words in ((0, _BEGIN), (room, _NOW)):
        if not marked.intersection(range(start, start + len(words))):
            _write(cells, start, words)
    return tuple(
        ("brand" if key else "label", "".join(cells[index] for index in run))
        for key, run in groupby(range(across), key=marked.__contains__)
    )


_BEGIN, _NOW = "-5 min ", " now"


def _write(cells: list[str], start: int, words: str) -> range:
    end = min(len(cells), start + len(words))
    cells[start:end] = words[: end - start]
    return range(start, end)
