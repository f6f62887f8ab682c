"""The verbs of `passerelle pod` that act on one that is there: stop, start, restart, terminate, adopt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from control.cli import run_async
from control.cli_link import group_of
from control.cli_output import as_json_option, dry_run_option, end_progress, progress, say, would
from control.clock import Clock
from control.cost import cost_accrued
from control.errors import Unauthorized, Unreachable, UsageError
from control.models import Pod, PodId

if TYPE_CHECKING:
    from control.provider import Provider


@click.command()
@click.argument("pod_id", metavar="[POD]", required=False)
@click.option("--by-itself", is_flag=True, help="Ask the pod, not its provider: for when that does not take our word.")
@as_json_option
@dry_run_option
def stop(pod_id: str | None, by_itself: bool, as_json: bool, dry_run: bool) -> None:
    """End a pod's compute, and wait until that is verified.

    Exit code: 0 its provider says EXITED, 1 it was asked to stop by itself, 2 refused, 3 not verified:
    it may still cost.

    \b
    Examples:
      passerelle pod stop
      passerelle pod stop k3v9x0q2ab --by-itself      RunPod's API is down, or our key is no longer good
    """
    from control import waiting
    from control.providers import find

    if by_itself:
        _ask_to_stop(pod_id, as_json, dry_run)
        return

    async def work() -> Pod:
        provider, found = await find(pod_id)
        if dry_run:
            return found
        try:
            return await waiting.exited(provider, found.id, Clock(), progress())
        finally:
            end_progress()

    try:
        found = run_async(work())
    except (Unreachable, Unauthorized) as error:
        error.remedy = "; ".join(part for part in (error.remedy, "or ask the pod itself: --by-itself") if part)
        raise
    if dry_run:
        click.echo(would(found, "stop"))
        return
    disk = f"; its disk costs {found.price.disk_per_day:.2f} $/day" if found.price.disk_per_day else ""
    spent = cost_accrued(found, Clock().now())
    say(found, as_json, f"pod {found.id} is {found.state}, verified; it spent {spent:.2f} ${disk}")


def _ask_to_stop(named: str | None, as_json: bool, dry_run: bool) -> None:
    """A rented pod asks its provider with a key of its own, until its machine dies: nobody here sees that it did."""
    from control.providers import find_even_unheard
    from control.ways import open_ways

    async def work() -> Pod:
        provider, found = await find_even_unheard(named)
        if not dry_run:
            async with await open_ways(provider, found) as ways:
                await ways.reach.ask({"cmd": "stop-pod"})
        return found

    found = run_async(work())
    if dry_run:
        click.echo(f"would ask {found.id} to stop itself")
        return
    say(found, as_json, f"pod {found.id} was asked to stop itself; not verified: passerelle pod status {found.id}")
    sys.exit(1)


@click.command()
@click.argument("pod_id", metavar="POD")
@as_json_option
@dry_run_option
def start(pod_id: str, as_json: bool, dry_run: bool) -> None:
    """Start a stopped pod again.

    A rented pod is tied to its machine: when that has no GPU free, it can only be made anew: pod create --like POD.

    \b
    Example:
      passerelle pod start k3v9x0q2ab && passerelle pod wait k3v9x0q2ab
    """
    from control.providers import find

    async def work() -> Pod:
        provider, found = await find(pod_id)
        return found if dry_run else await provider.start(found.id)

    started = run_async(work())
    if dry_run:
        click.echo(would(started, "start"))
        return
    say(started, as_json, f"pod {started.id} starts; it will be at {started.url} (passerelle pod wait {started.id})")


SERVICES = ("bridge", "engine")


@click.command()
@click.argument("words", metavar="[bridge|engine] [POD]", nargs=-1)
@click.option("--yes", is_flag=True, help="Do not ask: what is on a rented pod's container disk is lost.")
@dry_run_option
def restart(words: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Restart a whole pod: its container is made anew, and every stream is cut. Or only its bridge, or its engine.

    A rented pod loses what is on its container disk, and keeps its volume.

    \b
    Examples:
      passerelle pod restart k3v9x0q2ab
      passerelle pod restart engine            the same as: passerelle engine restart
    """
    from control.providers import find, find_even_unheard

    service = words[0] if words and words[0] in SERVICES else None
    names = words[1:] if service else words
    if len(names) > 1:
        raise UsageError(f"one pod at a time, not {' '.join(names)}", "passerelle pod restart [bridge|engine] [POD]")
    named = names[0] if names else None
    if service is not None:
        provider, found = run_async(find_even_unheard(named))
        if dry_run:
            click.echo(f"would restart the {service} of {found.id}")
            return
        _restart_service(provider, found, service)
        return
    provider, found = run_async(find(named))
    if dry_run:
        click.echo(would(found, "restart"))
        return
    if not yes and found.provider != "local":
        click.confirm(f"restart {found.id}, cut its streams and lose its container disk?", abort=True, err=True)
    found = run_async(provider.restart(found.id))
    click.echo(f"pod {found.id} starts again; see it serve: passerelle pod wait {found.id}")


def _restart_service(provider: Provider, found: Pod, service: str) -> None:
    from control.observe.session import PodSession

    async def work() -> None:
        await (await PodSession.open(provider, found)).restart(service)

    run_async(work())
    click.echo(f"the {service} of {found.id} is being restarted; see it: passerelle status")


@click.command()
@click.argument("pod_id", metavar="POD")
@click.option("--yes", is_flag=True, help="Do not ask: its disk is lost.")
@dry_run_option
def terminate(pod_id: str, yes: bool, dry_run: bool) -> None:
    """Stop a pod and remove it with its disk. What is on a network volume stays.

    \b
    Example:
      passerelle pod terminate k3v9x0q2ab
    """
    from control.providers import find

    async def look() -> tuple[Provider, Pod]:
        return await find(pod_id)

    provider, found = run_async(look())
    if dry_run:
        click.echo(would(found, "terminate"))
        return
    if not yes:
        what = f"{found.id} ({found.name})" if found.name else found.id
        lost = "its logs and its configuration" if found.provider == "local" else "all that is on it"
        click.confirm(f"remove pod {what} with its disk and {lost}?", abort=True, err=True)
    run_async(provider.terminate(found.id))
    click.echo(f"pod {found.id} is gone")


@click.command()
@click.argument("pod_id", metavar="POD")
@click.option("--budget", type=click.FloatRange(min=0.01), metavar="DOLLARS", help="What it may spend in all.")
@as_json_option
def adopt(pod_id: str, budget: float | None, as_json: bool) -> None:
    """Take over a rented pod that was made on another machine: its tokens are read from its environment at RunPod.

    Of a pod that is ours already, it changes the budget.

    \b
    Examples:
      passerelle pod adopt k3v9x0q2ab
      passerelle pod adopt k3v9x0q2ab --budget 10
    """
    from control.providers import open_rented

    found = run_async(open_rented().adopt(PodId(pod_id), budget))
    say(found, as_json, f"pod {found.id} ({found.name}) is yours: passerelle watch {found.id}")


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    group = group_of(cli, "pod", "Pods.")
    for verb in (stop, start, restart, terminate, adopt):
        group.add_command(verb)
