"""Everything that is known of one pod's money, put together, and as lines for a reader. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from control import cost
from control.ledger import Entry
from control.models import Account, Bill, Pod
from control.phases import clock as minutes

DAY = 24.0


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
    per_million: cost.PerMillion
    tokens: cost.Tokens
    account: Account
    hours_left: float | None
    budget: cost.Budget | None


def reckon(pod: Pod, bills: tuple[Bill, ...], account: Account, work: Entry, limit: float | None, now: float) -> Costs:
    """Everything from what was looked up."""
    seen = cost.spent(pod.spans, now)
    truth = cost.reconcile(pod.spans, bills, now)
    total = truth.total if pod.spans else cost.cost_accrued(pod, now)
    rate = pod.price.per_hour if pod.started_at is not None else pod.price.disk_per_day / DAY
    since = work.since if work.since is not None else now
    worked = cost.spent(pod.spans, now, since).total if pod.spans else max(0.0, now - since) * rate / cost.HOUR
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
        per_million=cost.per_million(worked, work.total),
        tokens=work.total,
        account=account,
        hours_left=cost.hours_left(account.balance, account.per_hour or rate),
        budget=cost.budget(limit, total, rate) if limit else None,
    )


def lines(known: Costs) -> list[str]:
    """For a reader."""
    unsure = f" (up to {known.unsure:.2f} more, for time in which nobody looked)" if known.unsure >= 0.005 else ""
    billed = "no bill yet: billing comes hours late"
    if known.billed_through is not None:
        billed = f"{known.billed:.2f} $ so far; our estimate of the same time is off by {known.estimate_off_by:+.2f} $"
    price = known.per_million
    per_million = f"in {_dollars(price.prompt)}, out {_dollars(price.generation)}, all {_dollars(price.all)}"
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
        f"  idle     {'-' if known.idle_share is None else f'{known.idle_share:.0%}'} of the time that was watched",
        f"  million  {per_million} (tokens while it was watched)",
        f"  balance  {balance}",
    ]
    if known.budget:
        left = "" if known.budget.left_s is None else f", {minutes(known.budget.left_s)} left"
        said.append(f"  budget   {known.budget.spent:.2f} of {known.budget.limit:.2f} ${left}: {known.budget.state}")
    return said


def _dollars(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} $"


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} h"
