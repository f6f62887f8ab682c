"""What scrape.py reads off real vLLM's /metrics, figure by figure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.observe import scrape
from tests.data import series


def test_a_real_h200_scrape_is_read_to_the_token() -> None:
    found = scrape.parse(series.h200()[59])
    assert (found.running, found.waiting, found.waiting_capacity, found.waiting_deferred) == (6, 0, 0, 0)
    assert found.kv_usage == pytest.approx(0.59215410)
    assert found.kv_tokens == 750_064
    assert found.model == "big"
    assert found.start_time == 1795959713.46
    counters = found.counters
    assert (counters.prompt_computed, counters.prompt_cached, counters.generation) == (443_296, 2_124_736, 9_846)
    assert (counters.cache_queries, counters.cache_hits, counters.preemptions) == (2_568_032, 2_124_736, 0)


def test_computed_and_cached_add_up_to_every_prompt_token_in_every_recorded_scrape() -> None:
    for text in (*series.h200(), *series.cpu()):
        counters = scrape.parse(text).counters
        total = next(
            float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:prompt_tokens_total")
        )
        assert counters.prompt_computed is not None
        assert counters.prompt_cached is not None
        assert counters.prompt_computed + counters.prompt_cached == total


def test_waiting_is_the_sum_of_its_reasons() -> None:
    for text in series.cpu():
        found = scrape.parse(text)
        assert found.waiting_capacity is not None
        assert found.waiting_deferred is not None
        assert found.waiting == found.waiting_capacity + found.waiting_deferred


def test_what_is_not_there_is_none_and_not_zero() -> None:
    found = scrape.parse("up 1\n")
    assert found.running is None
    assert found.kv_usage is None
    assert found.counters == scrape.Counters()
    assert found.ttft == ()


def test_two_engines_behind_one_server_are_added_and_their_usage_averaged() -> None:
    text = "".join(
        f'vllm:num_requests_running{{engine="{n}",model_name="m"}} {running}\n'
        f'vllm:kv_cache_usage_perc{{engine="{n}",model_name="m"}} {usage}\n'
        f'vllm:generation_tokens_total{{engine="{n}",model_name="m"}} {tokens}\n'
        for n, running, usage, tokens in ((0, 2, 0.5, 100), (1, 3, 0.7, 11))
    )
    found = scrape.parse(text)
    assert found.running == 5
    assert found.kv_usage == pytest.approx(0.6)
    assert found.counters.generation == 111


def test_an_error_page_is_a_scrape_error() -> None:
    with pytest.raises(scrape.ScrapeError, match="not Prometheus text"):
        scrape.parse("<html><body>502 Bad Gateway</body></html>")


@given(st.text(max_size=400))
def test_garbage_gives_metrics_or_a_scrape_error(text: str) -> None:
    try:
        found = scrape.parse(text)
    except scrape.ScrapeError:
        return
    assert isinstance(found, scrape.EngineMetrics)


def test_quantile_is_linear_inside_a_bucket() -> None:
    before = ((1.0, 10.0), (2.0, 10.0), (math.inf, 10.0))
    after = ((1.0, 10.0), (2.0, 14.0), (math.inf, 14.0))
    assert scrape.quantile(before, after, 0.5) == pytest.approx(1.5)
    assert scrape.quantile((), after, 0.5) == pytest.approx(0.7)


def test_quantile_knows_when_there_is_nothing_to_say() -> None:
    same = ((1.0, 3.0), (math.inf, 3.0))
    assert scrape.quantile(same, same, 0.5) is None
    assert scrape.quantile(same, ((1.0, 1.0), (math.inf, 1.0)), 0.5) is None
    assert scrape.quantile((), (), 0.5) is None


def test_what_lies_above_the_last_bound_is_given_as_that_bound() -> None:
    assert scrape.quantile((), ((1.0, 0.0), (math.inf, 5.0)), 0.5) == 1.0
