"""Money: every figure with its unit, in its column; nothing claimed of a provider that is silent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from console.rows import cells, text
from console.widgets.money import money
from control.observe.snapshot import Light
from tests.console.snapshots import engine, healthy, lights, pod, stopped, unknown, unreachable


def test_a_running_pod() -> None:
    assert " ".join(text(money(healthy(), 118)).split()) == (
        "1.69 $/h spent 3.7812 $ a day 40.56 $ decode now 2.86 $/M stopped: disk 0.02 $/day"
    )


def test_a_budget_stands_beside_what_was_spent() -> None:
    for width in (58, 78, 118):
        assert "spent   3.7812 $ of 5.00 $" in text(money(replace(healthy(), pod=pod(budget=5.0)), width))


def test_a_stopped_pod_computes_for_nothing() -> None:
    assert (
        " ".join(text(money(stopped(), 118)).split()) == "0.00 $/h spent 3.7812 $ disk 0.02 $/day when it runs 1.69 $/h"
    )


def test_what_is_not_known_is_no_zero() -> None:
    line = text(money(unknown(), 118))
    assert "0.00" not in line
    assert "silent" not in line


def test_no_price_per_token_while_nothing_is_decoded() -> None:
    assert "decode now          –" in text(money(replace(healthy(), engine=engine(decode_tok_s=0.0)), 118))


def test_no_price_per_token_of_an_old_rate() -> None:
    assert "decode now          –" in text(money(unreachable(), 118))


def test_a_silent_provider_is_named_with_its_age() -> None:
    silent = (Light("provider", "bad", 70.0, "timeout"), *lights()[1:])
    line = text(money(replace(healthy(), lights=silent), 78))
    assert "▲ provider silent 70s" in line
    assert cells(money(replace(healthy(), lights=silent), 78)) <= 78


@given(st.floats(0, 99), st.floats(0, 999), st.sampled_from([58, 78, 118]))
def test_the_columns_hold(hour: float, spent: float, width: int) -> None:
    row = text(money(replace(healthy(), pod=pod(cost_per_hour=hour, cost_accrued=spent)), width))
    usual = text(money(healthy(), width))
    assert len(row) <= width
    assert [row.find(label) for label in ("spent", "a day")] == [usual.find(label) for label in ("spent", "a day")]
