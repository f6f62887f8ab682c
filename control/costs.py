"""Everything that is known of one pod's money, put together, and as lines for a reader. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from control import cost
from control.ledger import Entry
from control.models import Account, Bill, Pod
from control.phases import clock as minutes

DAY = 24.0
FEW = 10_000
"""Tokens of which a price would say how long nobody worked."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the pod itself has counted, for as long as it has counted it."""

    tokens: cost.Tokens
    seconds: float
    by: Literal["engine", "bridge"]
    """Whose counters: they begin anew with its process."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything that is known of one pod's money. Dollars; None where it is not known, `account.reason` says why."""

    pod: str
    state: str
    per_hour_now: float
    stopped_per_day: float
    spent: float
    """Bills where they are whole, our own spans after them."""
    compute: float
    disk: float
    unsure: float
    """What may come on top of `spent`, for time in which nobody looked."""
    billed: float
    billed_through: float | None
    estimate_off_by: float
    idle_share: float | None
    """Of `watched_s`: only a watch that runs sees whether the engine has something to do."""
    watched_s: float
    per_million: cost.PerMillion
    tokens: cost.Tokens
    counted_s: float
    """What `tokens` and `per_million` are of."""
    counted_by: Literal["engine", "bridge", "watch", "nobody"]
    account: Account
    hours_left: float | None
    budget: cost.Budget | None


def reckon(
    pod: Pod,
    bills: tuple[Bill, ...],
    account: Account,
    work: Entry,
    limit: float | None,
    now: float,
    counted: Counted | None = None,
) -> Costs:
    """Everything from what was looked up. Of tokens, whoever counted for longer is believed: a watch, or the pod."""
    seen = cost.spent(pod.spans, now)
    truth = cost.reconcile(pod.spans, bills, now)
    total = truth.total if pod.spans else cost.cost_accrued(pod, now)
    rate = pod.price.per_hour if pod.started_at is not None else pod.price.disk_per_day / DAY
    tokens, seconds, by = _longer(work, counted, now)
    worked = cost.spent(pod.spans, now, now - seconds).total if pod.spans else min(total, _ran(pod, seconds, now))
    return Costs(
        pod=pod.id,
        state=pod.state.value,
        per_hour_now=rate,
        stopped_per_day=pod.price.disk_per_day,
        spent=total,
        compute=seen.compute if pod.spans else total,
        disk=seen.disk,
        unsure=seen.unsure,
        billed=truth.billed,
        billed_through=truth.through,
        estimate_off_by=truth.off_by,
        idle_share=work.work.idle_share,
        watched_s=work.work.watched_s,
        per_million=cost.per_million(worked, tokens),
        tokens=tokens,
        counted_s=seconds,
        counted_by=by,
        account=account,
        hours_left=cost.hours_left(account.balance, account.per_hour or rate),
        budget=cost.budget(limit, total, rate) if limit else None,
    )


def _ran(pod: Pod, seconds: float, now: float) -> float:
    """Dollars of a pod without spans over the last `seconds`; of one that has stopped, up to its end."""
    idle = 0.0 if pod.started_at is not None or pod.ended_at is None else max(0.0, now - pod.ended_at)
    return max(0.0, seconds - idle) * pod.price.per_hour / cost.HOUR


def _longer(
    work: Entry, counted: Counted | None, now: float
) -> tuple[cost.Tokens, float, Literal["engine", "bridge", "watch", "nobody"]]:
    watched = max(0.0, now - work.since) if work.since is not None else 0.0
    if counted is not None and counted.seconds >= watched:
        return counted.tokens, counted.seconds, counted.by
    return work.total, watched, "watch" if watched else "nobody"


def lines(known: Costs) -> list[str]:
    """For a reader."""
    unsure = f" (up to {known.unsure:.2f} more, for time in which nobody looked)" if known.unsure >= 0.005 else ""
    billed = "no bill yet: billing comes hours late"
    if known.billed_through is not None:
        billed = f"{known.billed:.2f} $ so far; our estimate of the same time is off by {known.estimate_off_by:+.2f} $"
    balance = (
        f"{_dollars(known.account.balance)}, {_hours(known.hours_left)} left at {_dollars(known.account.per_hour)}/h"
    )
    if known.account.balance is None:
        balance = f"-  ({known.account.reason})"
    said = [
        f"{known.pod}  {known.state}",
        f"  now      {known.per_hour_now:.4f} $/h; stopped, its disk costs {known.stopped_per_day:.2f} $/day",
        f"  spent    {known.spent:.2f} ${unsure}",
        f"  billed   {billed}",
        f"  idle     {_idle(known)}",
        f"  million  {_million(known)}",
        f"  balance  {balance}",
    ]
    if known.budget:
        left = "" if known.budget.left_s is None else f", {minutes(known.budget.left_s)} left"
        said.append(f"  budget   {known.budget.spent:.2f} of {known.budget.limit:.2f} ${left}: {known.budget.state}")
    return said


def _idle(known: Costs) -> str:
    if known.idle_share is None:
        return f"not known: nobody has watched it (passerelle watch, or passerelle cost {known.pod} --watch, counts it)"
    return f"{known.idle_share:.0%} of the {minutes(known.watched_s)} that it was watched"


def _million(known: Costs) -> str:
    if known.counted_by == "nobody":
        return "not known: the pod does not answer, and nobody has watched it"
    price, tokens = known.per_million, known.tokens.prompt + known.tokens.generation
    while_ = {
        "engine": f"in the {minutes(known.counted_s)} of this engine",
        "bridge": f"in the {minutes(known.counted_s)} of this bridge",
        "watch": f"in the {minutes(known.counted_s)} since it was first watched",
    }[known.counted_by]
    if tokens < FEW:
        return f"too few to tell: {tokens:.0f} tokens {while_}"
    shares = f"in {_dollars(price.prompt)}, out {_dollars(price.generation)}, all {_dollars(price.all)}"
    return f"{shares}: {tokens / 1e6:.2f} M tokens {while_}"


def _dollars(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} $"


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} h"
