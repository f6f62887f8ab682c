"""One pod's money put together, and what a reader is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control.cost import Reading, Tokens, Work, observe
from control.costs import Counted, lines, reckon
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
    assert "idle     25% of the 1:40 that it was watched" in said
    assert "all 0.50 $: 4.00 M tokens in the 1:00:00 since it was first watched" in said
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


def test_what_nobody_watched_is_said_to_be_so() -> None:
    said = "\n".join(lines(reckon(RENTED, (), ACCOUNT, Entry(), None, 1_000.0 + H)))
    assert f"idle     not known: nobody has watched it (passerelle watch, or passerelle cost {POD.id} --watch" in said
    assert "million  not known: the pod does not answer, and nobody has watched it" in said


def test_the_pods_own_counters_tell_what_tokens_cost() -> None:
    counted = Counted(Tokens(3e6, 1e6, 10.0, 30.0), H, "engine")
    known = reckon(RENTED, (), ACCOUNT, Entry(), None, 1_000.0 + 2 * H, counted)
    assert known.per_million.all == pytest.approx(0.5), "2 $ for the hour that the engine ran"
    assert known.per_million.generation == pytest.approx(1.5)
    said = "\n".join(lines(known))
    assert "in 0.17 $, out 1.50 $, all 0.50 $: 4.00 M tokens in the 1:00:00 of this engine" in said
    bare = reckon(RENTED, (), ACCOUNT, Entry(), None, 1_000.0 + 2 * H, Counted(Tokens(0.0, 0.0), 60.0, "bridge"))
    assert "too few to tell: 0 tokens in the 1:00 of this bridge" in "\n".join(lines(bare))


def test_whoever_counted_for_longer_is_believed() -> None:
    work = Entry(Work(100.0, 25.0), Tokens(2e6, 0.0), None, 1_000.0)
    short, long = (Counted(Tokens(4e6, 0.0), seconds, "engine") for seconds in (60.0, 9 * H))
    assert reckon(RENTED, (), ACCOUNT, work, None, 1_000.0 + H, short).counted_by == "watch"
    known = reckon(RENTED, (), ACCOUNT, work, None, 1_000.0 + H, long)
    assert (known.counted_by, known.tokens.prompt, known.idle_share) == ("engine", 4e6, 0.25)
    assert reckon(POD, (), ACCOUNT, Entry(), None, 1_000.0 + 9 * H, long).per_million.all == pytest.approx(0.74 * 9 / 4)


def test_tokens_of_an_embedded_pod_keep_their_price_when_it_has_stopped() -> None:
    stopped = replace(POD, state=PodState.EXITED, started_at=None, billed_s=H, ended_at=1_000.0 + H)
    work = Entry(Work(100.0, 25.0), Tokens(4e6, 0.0), None, 1_000.0)
    for later in (1.0, 48 * H):
        known = reckon(stopped, (), ACCOUNT, work, None, 1_000.0 + H + later)
        assert known.per_million.all == pytest.approx(0.74 / 4, rel=1e-3)
