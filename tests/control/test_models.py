"""Money: by the second, over every run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control.models import Tokens, cost_accrued
from tests.control.observe.reports import POD


def test_cost_ticks_by_the_second_while_it_runs() -> None:
    assert cost_accrued(POD, 1_000.0) == 0
    assert cost_accrued(POD, 1_000.0 + 3600) == pytest.approx(0.74)
    assert cost_accrued(POD, 1_001.0) == pytest.approx(0.74 / 3600)


def test_cost_of_a_stopped_pod_stands_still_and_earlier_runs_count() -> None:
    stopped = replace(POD, started_at=None, billed_s=7200.0)
    assert cost_accrued(stopped, 10.0) == cost_accrued(stopped, 10_000_000.0) == pytest.approx(1.48)
    assert cost_accrued(replace(POD, billed_s=3600.0), 4_600.0) == pytest.approx(1.48)


def test_a_clock_that_went_back_costs_nothing() -> None:
    assert cost_accrued(POD, 500.0) == 0


def test_tokens_do_not_show_themselves() -> None:
    tokens = Tokens("secret-a", "secret-b")
    assert "secret" not in repr(tokens)
    assert "secret" not in f"{tokens}"
