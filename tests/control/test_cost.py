"""Money against sums done by hand: price changes, restarts, a laptop that slept, bills that come late."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.cost import (
    Reading,
    Tokens,
    Work,
    budget,
    cost_accrued,
    disk_per_hour,
    grown,
    hours_left,
    network_volume_per_hour,
    observe,
    per_million,
    reconcile,
    spent,
)
from control.models import Bill, Span
from tests.control.observe.reports import POD

T0 = 1_000_000.0
H = 3600.0
RUN = Reading("compute", 2.0, T0)
OFF = Reading("disk", 0.1)


def seen(*looks: tuple[float, Reading]) -> tuple[Span, ...]:
    """Looks at hours after T0."""
    spans: tuple[Span, ...] = ()
    for hours, reading in looks:
        spans = observe(spans, reading, T0 + hours * H)
    return spans


def test_a_run_is_paid_from_its_start_not_from_the_first_look() -> None:
    spans = seen((1.5, RUN))
    assert spent(spans, T0 + 1.5 * H).compute == pytest.approx(3.0)
    assert spent(spans, T0 + 2 * H).compute == pytest.approx(4.0), "and goes on until it is seen to have ended"


def test_a_price_that_changed_counts_from_when_it_was_seen_and_says_what_it_may_have_been() -> None:
    spans = seen((1, RUN), (2, replace(RUN, per_hour=3.0)), (4, replace(RUN, per_hour=3.0)))
    bill = spent(spans, T0 + 4 * H)
    assert bill.compute == pytest.approx(2 * 2.0 + 2 * 3.0)
    assert bill.unsure == pytest.approx(1.0), "the new price may have held for the whole hour between the two looks"
    cheaper = spent(seen((1, RUN), (2, replace(RUN, per_hour=1.0)), (4, replace(RUN, per_hour=1.0))), T0 + 4 * H)
    assert cheaper.compute == pytest.approx(2 * 2.0 + 2 * 1.0)
    assert cheaper.unsure == 0


def test_a_laptop_that_slept_while_the_pod_ran_pays_the_whole_night() -> None:
    spans = seen((1, RUN), (9, RUN))
    assert spent(spans, T0 + 9 * H).compute == pytest.approx(18.0)
    assert spent(spans, T0 + 9 * H).unsure == 0


def test_a_pod_that_stopped_by_itself_while_the_laptop_slept() -> None:
    spans = seen((1, RUN), (9, OFF))
    bill = spent(spans, T0 + 9 * H)
    assert bill.compute == pytest.approx(2.0), "known: one hour"
    assert bill.disk == pytest.approx(0.8), "its disk is paid at least since then"
    assert bill.unsure == pytest.approx(8 * (2.0 - 0.1)), "it may have run until just now"


def test_a_restart_that_nobody_saw() -> None:
    again = replace(RUN, since=T0 + 5 * H)
    spans = seen((1, RUN), (6, again))
    bill = spent(spans, T0 + 6 * H)
    assert bill.compute == pytest.approx(2.0 + 2.0)
    assert bill.unsure == pytest.approx(8.0), "between the last look and the new start it may have run"


def test_stopped_and_started_again() -> None:
    spans = seen((0, RUN), (2, RUN), (2.001, OFF), (5, OFF), (6, replace(RUN, since=T0 + 5.5 * H)))
    bill = spent(spans, T0 + 7 * H)
    assert bill.compute == pytest.approx(4.0 + 1.5 * 2.0)
    assert bill.disk == pytest.approx(3.5 * 0.1)
    assert bill.unsure == pytest.approx(0.001 * 1.9)


def test_a_terminated_pod_costs_nothing_more() -> None:
    spans = seen((1, RUN), (1.5, OFF), (2, Reading("nothing", 0.0)))
    assert spent(spans, T0 + 2 * H) == spent(spans, T0 + 900 * H)
    assert not spans[-1].open


def test_a_clock_that_went_back_changes_nothing() -> None:
    spans = seen((2, RUN))
    assert observe(spans, RUN, T0) == spans
    assert spent(spans, T0).compute == pytest.approx(4.0)


def test_a_start_in_the_future_of_our_clock_is_now() -> None:
    assert spent(seen((1, replace(RUN, since=T0 + 3 * H))), T0 + 1 * H).total == 0


KINDS: tuple[Literal["compute", "disk", "nothing"], ...] = ("compute", "disk", "nothing")
LOOKS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.floats(0, 40),
        st.one_of(st.none(), st.floats(T0 - 1e4, T0 + 1e5)),
        st.floats(-100, 20_000),
    ),
    max_size=25,
)


@given(LOOKS)
def test_no_moment_is_paid_twice_and_what_was_spent_never_shrinks(
    looks: list[tuple[Literal["compute", "disk", "nothing"], float, float | None, float]],
) -> None:
    spans: tuple[Span, ...] = ()
    now, before = T0, 0.0
    for kind, rate, since, step in looks:
        now += step
        latest = max([now, *(span.seen for span in spans)])
        known = sum((span.seen - span.start) * span.per_hour / H for span in spans)
        spans = observe(spans, Reading(kind, rate, since), now)
        after = sum((span.seen - span.start) * span.per_hour / H for span in spans)
        assert after >= known - 1e-6
        assert not any(later.start < earlier.seen for earlier, later in pairwise(spans))
        assert all(span.start <= span.seen <= latest and span.unsure >= 0 for span in spans)
        assert [span.open for span in spans[:-1]] == [False] * (len(spans) - 1 if spans else 0)
        before = max(before, after)
    assert spent(spans, now).total >= before - 1e-6


def bill(start: float, end: float, amount: float) -> Bill:
    return Bill(T0 + start * H, T0 + end * H, amount)


def test_bills_win_where_they_are_whole_and_the_rest_is_estimated() -> None:
    spans = seen((0, RUN), (2.5, RUN))
    bills = (bill(0, 1, 1.9), bill(1, 2, 2.1), bill(2, 3, 0.2))
    truth = reconcile(spans, bills, T0 + 2.5 * H)
    assert truth.through == T0 + 2 * H, "the third hour has not ended"
    assert truth.billed == pytest.approx(4.0)
    assert truth.estimated == pytest.approx(1.0)
    assert truth.total == pytest.approx(5.0)
    assert truth.off_by == pytest.approx(0.0)


def test_bills_that_begin_later_or_earlier_than_what_was_seen() -> None:
    spans = seen((0, RUN), (4, RUN))
    late = reconcile(spans, (bill(2, 3, 2.5),), T0 + 4 * H)
    assert late.total == pytest.approx(2 * 2.0 + 2.5 + 2.0)
    assert late.off_by == pytest.approx(-0.5)
    adopted = reconcile(seen((10, replace(RUN, since=T0 + 10 * H))), (bill(0, 10, 18.0),), T0 + 11 * H)
    assert adopted.total == pytest.approx(18.0 + 2.0), "what it cost before we knew it"


def test_without_a_bill_the_estimate_stands() -> None:
    spans = seen((1, RUN))
    assert reconcile(spans, (), T0 + H).total == pytest.approx(2.0)
    assert reconcile(spans, (bill(0, 2, 9.0),), T0 + H).through is None


def test_an_embedded_pod_ticks_by_the_second() -> None:
    assert cost_accrued(POD, 1_000.0) == 0
    assert cost_accrued(POD, 1_000.0 + H) == pytest.approx(0.74)
    assert cost_accrued(POD, 500.0) == 0
    stopped = replace(POD, started_at=None, billed_s=7200.0)
    assert cost_accrued(stopped, 10.0) == cost_accrued(stopped, 10_000_000.0) == pytest.approx(1.48)
    assert cost_accrued(replace(POD, spans=seen((1, RUN))), T0 + H) == pytest.approx(2.0), "spans win"


def test_what_disks_cost() -> None:
    assert disk_per_hour(100) * 730 == pytest.approx(20.0)
    assert network_volume_per_hour(500) * 730 == pytest.approx(35.0)
    assert network_volume_per_hour(2000) * 730 == pytest.approx(100.0)


def test_the_share_of_idle_time_counts_only_what_was_watched() -> None:
    work = Work()
    assert work.idle_share is None
    for at, busy in [(0.0, True), (4.0, False), (10.0, True), (500.0, False), (505.0, False), (504.0, True)]:
        work = work.see(busy, at)
    assert (work.watched_s, work.idle_s) == (15.0, 11.0)
    assert work.idle_share == pytest.approx(11 / 15)


def test_dollars_per_million_tokens() -> None:
    price = per_million(3.0, Tokens(prompt=4e6, generation=1e6, prefill_s=100.0, decode_s=200.0))
    assert price.prompt == pytest.approx(0.25)
    assert price.generation == pytest.approx(2.0)
    assert price.all == pytest.approx(0.6)
    assert per_million(3.0, Tokens(1e6, 2e6)).all == pytest.approx(1.0)
    assert per_million(3.0, Tokens(1e6, 2e6)).prompt is None
    assert per_million(3.0, Tokens(0, 0)).all is None
    assert per_million(3.0, Tokens(0, 5e5, 0.0, 10.0)).generation == pytest.approx(6.0)


def test_counters_that_began_anew_count_from_zero() -> None:
    assert grown(Tokens(100, 10, 1, 2), Tokens(150, 30, 2, 5)) == Tokens(50, 20, 1, 3)
    assert grown(Tokens(100, 10), Tokens(40, 4, 1, 2)) == Tokens(40, 4, 1, 2)


def test_how_long_the_money_lasts() -> None:
    assert hours_left(10.0, 4.0) == 2.5
    assert hours_left(-1.0, 4.0) == 0
    assert hours_left(None, 4.0) is None
    assert hours_left(10.0, 0.0) is None


@pytest.mark.parametrize(("now", "state"), [(0.0, "ok"), (3.99, "ok"), (4.0, "warn"), (4.99, "warn"), (5.0, "stop")])
def test_a_budget_warns_and_then_says_stop(now: float, state: str) -> None:
    assert budget(5.0, now, 2.0).state == state
    assert budget(5.0, now, 2.0).left_s == pytest.approx((5.0 - now) / 2.0 * H)
    assert budget(5.0, now, 0.0).left_s is None
