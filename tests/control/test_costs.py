"""One pod's money put together, and what a reader is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control.cost import Reading, Tokens, Work, observe
from control.costs import lines, reckon
from control.ledger import Entry
from control.models import Account, Bill, PodState, Price
from tests.control.observe.reports import POD

H = 3600.0
RENTED = replace(
    POD,
    provider="runpod",
    price=Price(2.0, 0.66),
    spans=observe((), Reading("compute", 2.0, 1_000.0), 1_000.0 + H),
)
ACCOUNT = Account(10.0, 4.0, 80.0)


def test_a_running_pod() -> None:
    work = Entry(Work(100.0, 25.0), Tokens(3e6, 1e6, 10.0, 30.0), None, 1_000.0 + H)
    known = reckon(RENTED, (), ACCOUNT, work, 5.0, 1_000.0 + 2 * H)
    assert (known.spent, known.compute, known.per_hour_now, known.stopped_per_day) == (4.0, 4.0, 2.0, 0.66)
    assert known.idle_share == 0.25
    assert known.per_million.all == pytest.approx(0.5)
    assert known.per_million.prompt == pytest.approx(0.5 / 3)
    assert known.per_million.generation == pytest.approx(1.5)
    assert known.hours_left == 2.5, "by what the whole account costs"
    assert known.budget is not None
    assert (known.budget.state, known.budget.left_s) == ("warn", 1800.0)
    said = "\n".join(lines(known))
    assert "2.0000 $/h; stopped, its disk costs 0.66 $/day" in said
    assert "spent    4.00 $" in said
    assert "idle     25%" in said
    assert "balance  10.00 $, 2.5 h left at 4.00 $/h" in said
    assert "budget   4.00 of 5.00 $, 30:00 left: warn" in said


def test_bills_win_and_the_difference_is_said() -> None:
    known = reckon(RENTED, (Bill(1_000.0, 1_000.0 + H, 2.2),), ACCOUNT, Entry(), None, 1_000.0 + 2 * H)
    assert known.spent == pytest.approx(4.2)
    assert known.billed == 2.2
    assert known.estimate_off_by == pytest.approx(-0.2)
    assert "2.20 $ so far; our estimate of the same time is off by -0.20 $" in "\n".join(lines(known))


def test_a_stopped_pod_costs_its_disk() -> None:
    spans = observe(RENTED.spans, Reading("disk", 0.66 / 24), 1_000.0 + H)
    stopped = replace(RENTED, state=PodState.EXITED, started_at=None, spans=spans)
    known = reckon(stopped, (), Account(None, None, None, "no library"), Entry(), None, 1_000.0 + 25 * H)
    assert known.per_hour_now == pytest.approx(0.66 / 24)
    assert known.compute == pytest.approx(2.0)
    assert known.disk == pytest.approx(0.66)
    assert "balance  -  (no library)" in "\n".join(lines(known))
    assert known.idle_share is None


def test_an_embedded_pod_has_no_spans_and_no_bills() -> None:
    known = reckon(POD, (), Account(None, None, None, "none"), Entry(), 1.0, 1_000.0 + H)
    assert known.spent == pytest.approx(0.74)
    assert known.budget is not None
    assert known.budget.state == "ok"
    assert "no bill yet" in "\n".join(lines(known))


def test_what_is_unsure_is_said() -> None:
    spans = observe(RENTED.spans, Reading("disk", 0.0), 1_000.0 + 3 * H)
    known = reckon(replace(RENTED, spans=spans), (), ACCOUNT, Entry(), None, 1_000.0 + 3 * H)
    assert (known.spent, known.unsure) == (2.0, 4.0)
    assert "(up to 4.00 more" in "\n".join(lines(known))
