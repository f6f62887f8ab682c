"""Rates: right from the first reading, and over a counter's reset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control.observe import rates
from control.observe.scrape import Counters
from tests.control.observe.reports import metrics


def fold(*scrapes: tuple[float, float, float]) -> tuple[rates.Sample, ...]:
    """(moment, engine's start time, generated tokens) each."""
    samples: tuple[rates.Sample, ...] = ()
    for at, start, generation in scrapes:
        samples = rates.remember(samples, metrics(start, generation=generation), at)
    return samples


def decode_rate(samples: tuple[rates.Sample, ...]) -> float | None:
    window = rates.window(samples, rates.DECODE_WINDOW_S)
    return window.per_second(window.grown.generation) if window else None


def test_one_scrape_is_not_a_rate() -> None:
    assert decode_rate(fold((0, 1, 500))) is None


def test_the_first_rate_is_the_true_one() -> None:
    assert decode_rate(fold((0, 1, 500), (1, 1, 1000))) == 500


def test_a_steady_rate_stays_what_it_is() -> None:
    assert decode_rate(fold(*((t, 1, 100.0 * t) for t in range(30)))) == 100


def test_the_window_forgets_what_is_older() -> None:
    busy = [(float(t), 1.0, 100.0 * t) for t in range(10)]
    idle = [(float(t), 1.0, 900.0) for t in range(10, 20)]
    assert decode_rate(fold(*busy, *idle)) == 0


def test_a_restart_counts_from_zero_and_is_never_negative() -> None:
    samples = fold((0, 1, 10_000), (1, 1, 10_100), (2, 2, 40), (3, 2, 140))
    assert rates.restarted(samples[1], samples[2])
    assert decode_rate(samples) == (100 + 40 + 100) / 3


def test_a_reset_is_seen_without_a_start_time_too() -> None:
    before = rates.Sample(0, None, Counters(generation=50), (), ())
    after = rates.Sample(1, None, Counters(generation=7), (), ())
    assert rates.restarted(before, after)
    assert rates.growth(before, after).generation == 7


def test_a_counter_that_the_engine_does_not_have_has_no_rate() -> None:
    before = rates.Sample(0, 1, Counters(generation=50), (), ())
    after = rates.Sample(1, 1, Counters(generation=60), (), ())
    window = rates.window((before, after), 5)
    assert window is not None
    assert window.grown.generation == 10
    assert window.grown.prompt_computed is None
    assert window.per_second(window.grown.prompt_computed) is None


@given(
    st.lists(
        st.tuples(st.floats(0.1, 5), st.integers(0, 10_000), st.booleans()),
        min_size=1,
        max_size=60,
    )
)
def test_no_history_of_restarts_makes_a_rate_negative_or_invents_tokens(steps: list[tuple[float, int, bool]]) -> None:
    at, start, count, made = 0.0, 1.0, 0, 0
    samples = fold((0, 1, 0))
    for seconds, tokens, restart in steps:
        at += seconds
        if restart:
            start, count = start + 1, 0
        count += tokens
        made += tokens
        samples = rates.remember(samples, metrics(start, generation=count), at)
    window = rates.window(samples, 10**9)
    assert window is not None
    assert window.grown.generation is not None
    assert 0 <= window.grown.generation <= made
    assert all(s.at >= at - 2 * rates.PREFILL_WINDOW_S - 5 for s in samples)
