"""The engine's figures: requests, rates, KV cache, latencies, GPU. A scrape that is old shows its age and dims."""

from __future__ import annotations

from console.format import STALE_S, age, count, decimal, gib, latency, percent, short
from console.rows import Role, Row, Rows, aged, clip
from console.widgets.part import Part
from control.observe.snapshot import EngineView, PodView, Snapshot

FIRST, SECOND = 24, 35
"""Cells of the first and second group of a line; a third one follows where there is room."""


class Engine(Part):
    """Four lines when short, six with latencies and the GPU on lines of their own, more with the totals."""

    def rows(self, snap: Snapshot, width: int, height: int) -> Rows:
        return engine(snap, width, height)

    def heading(self, snap: Snapshot) -> str:
        return f"engine · figures {age(snap.engine.scrape_age_s)} old" if stale(snap.engine) else "engine"


def stale(view: EngineView) -> bool:
    """Whether there are figures, and they are old. Dashes have no age."""
    return view.running is not None and view.scrape_age_s is not None and view.scrape_age_s > STALE_S


def engine(snap: Snapshot, width: int, height: int) -> Rows:
    """Each figure keeps its column; None is –."""
    view = snap.engine
    lines = [
        (
            _figure("running", count(view.running), _of(view.max_num_seqs)),
            _waiting(view),
        ),
        (_figure("decode", count(view.decode_tok_s), "tok/s"), _per_stream(view)),
        (_figure("prefill", count(view.prefill_tok_s), "tok/s"), _cached(view)),
        (_figure("KV cache", percent(view.kv_usage), ""), _kv(view)),
    ]
    extra = [("TTFT", latency(view.ttft_p50_s)), ("ITL", latency(view.itl_p50_s)), *_gpu_short(snap.pod)]
    if height >= 6:
        lines.append((_figure("TTFT p50", latency(view.ttft_p50_s), ""), _latencies(view)))
        lines.append(_gpu(snap.pod))
        lines.extend(_totals(view, height - 6))
    drawn = []
    for index, (left, right) in enumerate(lines[:height]):
        row = _pad(left, FIRST) + right
        if height < 6 and width >= FIRST + SECOND + 16 and index < len(extra):
            label, figure = extra[index]
            row = (*_pad(row, FIRST + SECOND), ("label", f"  {label}"), ("plain", figure.rjust(14 - len(label))))
        drawn.append(clip(row, width))
    return aged(tuple(drawn)) if stale(view) else tuple(drawn)


def _pad(row: Row, width: int) -> Row:
    return (*row, ("plain", " " * (width - sum(len(part) for _, part in row))))


def _figure(label: str, figure: str, unit: str, role: Role = "strong") -> Row:
    return (("label", f"{label:<8}"), (role, figure.rjust(8)), ("label", f" {unit}"))


def _of(most: int | None) -> str:
    """The sequence cap, in six cells."""
    if most is None:
        return ""
    return f"of {most}" if most < 1000 else f"of {most // 1000}k"


def _latencies(view: EngineView) -> Row:
    """Inter-token latency, and the preemptions that spoil it."""
    role: Role = "watch" if view.preemptions else "plain"
    return (
        ("label", "ITL p50 "),
        ("plain", latency(view.itl_p50_s).rjust(6)),
        ("label" if role == "plain" else role, f"   {'▲' if role == 'watch' else ' '} preempted "),
        (role, count(view.preemptions).rjust(4)),
    )


def _waiting(view: EngineView) -> Row:
    capacity, deferred = view.waiting.capacity, view.waiting.deferred
    role: Role = "watch" if capacity or deferred else "plain"
    glyph = "▲" if role == "watch" else " "
    return (
        ("label", "waiting"),
        (role, f" {glyph}{count(capacity):>3}"),
        ("label", " capacity"),
        (role if deferred else "plain", f"{count(deferred):>4}"),
        ("label", " deferred"),
    )


def _per_stream(view: EngineView) -> Row:
    rate = view.decode_tok_s / view.running if view.decode_tok_s is not None and view.running else None
    return (("label", "each   "), ("plain", decimal(rate).rjust(5)), ("label", " tok/s"))


def _cached(view: EngineView) -> Row:
    hits: Row = (("label", "   hits "), ("plain", percent(view.cache_hit_rate).rjust(5)))
    return (("label", "cached "), ("plain", count(view.cached_tok_s).rjust(7)), ("label", " tok/s"), *hits)


def _kv(view: EngineView) -> Row:
    used = view.kv_usage * view.kv_tokens if view.kv_usage is not None and view.kv_tokens is not None else None
    return (
        ("plain", short(used).rjust(6)),
        ("label", " of "),
        ("plain", short(view.kv_tokens).rjust(6)),
        ("label", " tokens"),
    )


def _gpu_means(pod: PodView) -> tuple[float | None, float | None, float | None, str]:
    """Mean use of 1, power in watts, hottest in °C, memory in words; over all GPUs."""

    def known(values: list[float | None]) -> list[float]:
        return [value for value in values if value is not None]

    use = known([gpu.utilization_pct for gpu in pod.gpus])
    watts = known([gpu.power_w for gpu in pod.gpus])
    heat = known([gpu.temperature_c for gpu in pod.gpus])
    used = known([gpu.memory_used_mib for gpu in pod.gpus])
    total = known([gpu.memory_total_mib for gpu in pod.gpus])
    memory = f"{gib(sum(used) if used else None)} of {gib(sum(total) if total else None)} GiB"
    return (
        sum(use) / len(use) / 100 if use else None,
        sum(watts) if watts else None,
        max(heat) if heat else None,
        memory,
    )


def _gpu(pod: PodView) -> tuple[Row, Row]:
    if pod.gpu_absent:
        return (("label", "GPU"),), (("label", "no GPU here"),)
    use, watts, heat, memory = _gpu_means(pod)
    label = f"{len(pod.gpus)} GPUs" if len(pod.gpus) > 1 else "GPU"
    figures: Row = (
        ("plain", count(watts).rjust(5)),
        ("label", " W"),
        ("plain", count(heat).rjust(5)),
        ("label", " °C"),
        ("plain", memory.rjust(18)),
    )
    return _figure(label, percent(use), ""), figures


def _gpu_short(pod: PodView) -> list[tuple[str, str]]:
    if pod.gpu_absent:
        return [("", "no GPU here")]
    use, _, heat, _ = _gpu_means(pod)
    return [("GPU", percent(use)), ("", f"{count(heat)} °C")]


def _totals(view: EngineView, room: int) -> list[tuple[Row, Row]]:
    """Counters of the engine's process, where there is room for them."""
    totals = view.totals
    window = f"over {age(view.prefill_window_s)}"
    lines: list[tuple[Row, Row]] = [
        ((), ()),
        (_figure("decoded", short(totals.generation), "tok", "plain"), _since("since this engine began")),
        (_figure("computed", short(totals.prompt_computed), "tok", "plain"), _since(f"prefill rate {window}")),
        (_figure("cached", short(totals.prompt_cached), "tok", "plain"), _since(f"restarts {count(view.restarts)}")),
        (_figure("context", short(view.max_model_len), "tok", "plain"), _since("longest request it takes")),
    ]
    return lines[:room]


def _since(words: str) -> Row:
    return (("label", words),)
