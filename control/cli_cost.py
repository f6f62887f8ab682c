"""`passerelle cost`: what a pod costs, has cost and will cost, and a budget that warns and then stops it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from control import cost
from control.cli import echo_json, run_async
from control.cli_output import as_json_option, end_progress, progress
from control.costs import Costs, Counted, lines, reckon
from control.ledger import tokens_of
from control.models import Account, Bill, Pod, Target
from control.phases import clock as minutes

if TYPE_CHECKING:
    from control.ledger import Ledger
    from control.observe.updates import ReportSeen
    from control.provider import Provider

LOOK_EVERY_S = 30.0
LOOKS_INSIDE = 3
"""For one at the provider: idle time is counted between two looks that are not far apart."""


@click.command("cost")
@click.argument("pod_id", metavar="[POD]", required=False)
@click.option(
    "--budget",
    type=click.FloatRange(min=0.01),
    metavar="DOLLARS",
    help="Warn at 80 % of it; stop the pod with --watch.",
)
@click.option("--watch", is_flag=True, help="Go on until the pod has stopped, and stop it when its budget is used up.")
@click.option("--no-account", is_flag=True, help="Leave the account's balance out: RunPod's library takes seconds.")
@as_json_option
def command(pod_id: str | None, budget: float | None, watch: bool, no_account: bool, as_json: bool) -> None:
    """What a pod costs, has cost, and still costs when it is stopped.

    Idle time is known of the time in which a watch ran; dollars per million tokens also by the pod's own counters.

    Exit code: 0, 1 when 80 % of the budget is used, 2 when all of it is.

    \b
    Examples:
      passerelle cost
      passerelle cost --budget 5 --watch      warns at 4 $, stops the pod at 5 $
    """
    from control.providers import find_even_unheard

    provider, found = run_async(find_even_unheard(pod_id, stopped_too=True))
    if watch:
        found = run_async(_hold(provider, found, budget))
    known = run_async(_costs(provider, found, budget, not no_account))
    if as_json:
        echo_json(asdict(known))
    else:
        click.echo("\n".join(lines(known)))
    if known.budget is not None:
        sys.exit({"ok": 0, "warn": 1, "stop": 2}[known.budget.state])


async def _hold(provider: Provider, pod: Pod, limit: float | None) -> Pod:
    """Look until the pod has stopped, and stop it when its budget is used up. A provider that is silent is asked on."""
    from control import waiting
    from control.clock import Clock
    from control.errors import Unreachable
    from control.ledger import Ledger
    from control.models import PodState
    from control.store import home

    say, clock, warned = progress(), Clock(), False
    ledger = Ledger(home(), pod.id)
    while pod.state not in (PodState.EXITED, PodState.TERMINATED):
        spent = cost.cost_accrued(pod, clock.now())
        allowed = limit if limit is not None else pod.budget
        held = cost.budget(allowed, spent, pod.price.per_hour) if allowed else None
        left = f" of {allowed:.2f} $, {minutes(held.left_s or 0)} left" if held else " $"
        say(f"{minutes(clock.now() - pod.created_at)}  {spent:.2f}{left}")
        if held and held.state == "warn" and not warned:
            warned = True
            click.echo(f"\npasserelle: {spent:.2f} of {allowed:.2f} $ are spent", err=True)
        if held and held.state == "stop":
            click.echo(f"\npasserelle: the budget of {allowed:.2f} $ is used up; stopping {pod.id}", err=True)
            pod = await waiting.exited(provider, pod.id, clock, say)
            break
        for _ in range(LOOKS_INSIDE):
            await _look_inside(provider, pod, ledger, clock.now())
            await clock.sleep(LOOK_EVERY_S / LOOKS_INSIDE)
        try:
            pod = await provider.get(pod.id)
        except Unreachable as error:
            say(f"{minutes(clock.now() - pod.created_at)}  {error.message}")
    end_progress()
    return pod


async def _costs(provider: Provider, pod: Pod, limit: float | None, ask_account: bool) -> Costs:
    from control.clock import Clock
    from control.ledger import Ledger
    from control.store import home

    now = Clock().now()
    ledger = Ledger(home(), pod.id)
    counted = await _look_inside(provider, pod, ledger, now)
    bills = await _bills(provider, pod)
    account = await _account(provider) if ask_account else Account(None, None, None, "not asked for")
    return reckon(pod, bills, account, ledger.entry, limit if limit is not None else pod.budget, now, counted)


async def _bills(provider: Provider, pod: Pod) -> tuple[Bill, ...]:
    from control.errors import PasserelleError

    try:
        return await provider.bill(pod.id)
    except PasserelleError as error:
        click.echo(f"passerelle: no bills: {error.message}", err=True)
        return ()


async def _look_inside(provider: Provider, pod: Pod, ledger: Ledger, now: float) -> Counted | None:
    """The pod's counters as they are now. A pod that does not answer adds nothing."""
    from control.errors import PasserelleError
    from control.observe.sources import read
    from control.podlink import PodLink

    if pod.url is None or pod.started_at is None:
        return None
    try:
        async with PodLink(Target(pod.url, (await provider.tokens(pod.id)).operator)) as link:
            seen = read(await link.report())
    except PasserelleError:
        return None
    ledger.see(bool(seen.report.turns), tokens_of(seen.metrics) if seen.metrics else None, now)
    return counted_by(seen)


def counted_by(seen: ReportSeen) -> Counted | None:
    """The engine's counters, which say for how long it did what; else the bridge's, which know of tokens alone."""
    report, metrics = seen.report, seen.metrics
    tokens = tokens_of(metrics) if metrics else None
    if tokens is not None and metrics is not None and metrics.start_time is not None:
        return Counted(tokens, max(0.0, report.at - metrics.start_time), "engine")
    totals = report.totals
    if "input_tokens" not in totals or "output_tokens" not in totals:
        return None
    return Counted(cost.Tokens(totals["input_tokens"], totals["output_tokens"]), report.uptime_s, "bridge")


async def _account(provider: Provider) -> Account:
    from control.runpod.provider import RunPodProvider

    if isinstance(provider, RunPodProvider):
        return await provider.account()
    return Account(None, None, None, "an embedded pod has no account")


def register(cli: click.Group) -> None:
    """Add this verb to the command."""
    cli.add_command(command)
