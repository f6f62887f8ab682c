"""The verbs of `passerelle fleet` for a fleet that is there. cli_fleet_up has the one that makes it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from control.cli import echo_json, run_async
from control.cli_connect import Launches, deliver, environment_at, told_options
from control.cli_output import as_json_option, dry_run_option, end_progress, progress
from control.errors import Refused, UsageError
from control.store import home

if TYPE_CHECKING:
    from control.fleet.models import Fleet
    from control.fleet.store import Fleets
    from control.fleet.view import FleetSnapshot

READY_S = 60.0


@click.group()
def fleet() -> None:
    """Several pods of one configuration behind one address, so that six agents become sixty.

    A bridge and a router run on this machine (docs/scale.md); a conversation stays at the replica that has its prefix.

    \b
    Examples:
      passerelle fleet up 3                                          embedded pods, for trying
      passerelle fleet up 4 --name night --provider runpod --config pod.toml --gpu h200 --max-price 4
      passerelle fleet up --pod POD --pod POD                        pods that are there
      eval "$(passerelle fleet connect night)"
      passerelle fleet status night
      passerelle fleet stop night
    """


async def serve(fleets: Fleets, made: Fleet, wait: bool) -> tuple[str, ...]:
    """Start the front, and wait for the replicas. What does not serve, in words."""
    from control.fleet import life

    await life.start_front(fleets, made)
    if not wait:
        return ()
    try:
        failed = await life.wait_serving(made.replicas, progress(), None)
    finally:
        end_progress()
    if len(failed) < len(made.replicas) and not await life.ready(fleets, made, READY_S):
        failed += (f"the front has not found its replicas within {READY_S:.0f} s",)
    return failed


def done(fleets: Fleets, made: Fleet, failed: tuple[str, ...], as_json: bool) -> None:
    for why in failed:
        click.echo(f"passerelle: {why}", err=True)
    if as_json:
        echo_json({**_row(fleets, made), "failed": failed})
    else:
        click.echo(f"fleet {made.name}: {len(made.replicas)} replicas at {made.url}")
        click.echo(
            f'  use it: eval "$(passerelle fleet connect {made.name})"; its end: passerelle fleet stop {made.name}'
        )
    if failed:
        sys.exit(1 if len(failed) < len(made.replicas) else 2)


def _row(fleets: Fleets, found: Fleet) -> dict[str, object]:
    from control.fleet import life

    return {
        "name": found.name,
        "url": found.url,
        "front": life.running(fleets, found.name) is not None,
        "replicas": found.replicas,
        "created_at": found.created_at,
    }


@fleet.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """Every fleet: its address, whether its front runs, its replicas.

    \b
    Example:
      passerelle fleet list --json
    """
    from control.fleet.store import Fleets

    fleets = Fleets(home())
    rows = [_row(fleets, fleets.load(name)) for name in fleets.names()]
    if as_json:
        echo_json(rows)
    elif not rows:
        click.echo("no fleets; make one: passerelle fleet up 3")
    else:
        click.echo(f"{'FLEET':<14} {'FRONT':<8} {'URL':<26} REPLICAS")
        for row in rows:
            front, ids = "runs" if row["front"] else "stopped", row["replicas"]
            click.echo(
                f"{row['name']:<14} {front:<8} {row['url']:<26} {' '.join(ids) if isinstance(ids, tuple) else ''}"
            )


@fleet.command()
@click.argument("name", metavar="[FLEET]", required=False)
@as_json_option
@click.option("--seconds", default=2.2, show_default=True, help="How long to look: a rate needs two polls.")
def status(name: str | None, as_json: bool, seconds: float) -> None:
    """One look at a fleet: its front, and a row per replica with load, cache, rates and cost.

    Exit code: 0 healthy, 1 warning, 2 critical, 3 unreachable.

    \b
    Example:
      passerelle fleet status night
    """
    from control.fleet.look import look
    from control.fleet.store import Fleets
    from control.fleet.text import lines
    from control.observe.snapshot import EXIT_CODES

    fleets = Fleets(home())
    snap: FleetSnapshot = run_async(look(fleets, choose(fleets, name), seconds))
    if as_json:
        echo_json(snap)
    else:
        click.echo("\n".join(lines(snap)))
    sys.exit(EXIT_CODES[snap.verdict])


def choose(fleets: Fleets, name: str | None) -> Fleet:
    """The fleet of that name, or the only one. Raises NoSuchFleet, UsageError."""
    from control.fleet.store import NoSuchFleet

    if name is not None:
        return fleets.load(name)
    names = fleets.names()
    if len(names) > 1:
        raise UsageError(f"several fleets: {', '.join(names)}", "name the one that you mean")
    if not names:
        raise NoSuchFleet("there is no fleet", "make one: passerelle fleet up 3")
    return fleets.load(names[0])


@fleet.command(cls=Launches)
@click.argument("name", metavar="[FLEET]", required=False)
@told_options
@click.pass_context
def connect(ctx: click.Context, /, name: str | None, wait: float, no_check: bool, **told: Any) -> None:
    """Point Claude Code at a fleet, once one real request of one token has been answered: see `passerelle connect`.

    \b
    Examples:
      eval "$(passerelle fleet connect night)"
      passerelle fleet connect night -- claude --continue
    """
    from control.fleet.store import Fleets

    fleets = Fleets(home())
    found = choose(fleets, name)
    see = f"passerelle fleet status {found.name}"
    tokens = fleets.tokens(found.name)
    deliver(ctx, lambda: environment_at(found.url, tokens, found.name, see, wait, not no_check), **told)


@fleet.command()
@click.argument("name", metavar="[FLEET]", required=False)
@as_json_option
def start(name: str | None, as_json: bool) -> None:
    """Start a stopped fleet again: its pods, where they are stopped, and its front.

    Exit code: 0 all serve, 1 some do, 2 none does.

    \b
    Example:
      passerelle fleet start night
    """
    from control.fleet import life
    from control.fleet.store import Fleets

    fleets = Fleets(home())
    found = choose(fleets, name)
    failed = run_async(life.start_pods(found.replicas))
    if len(failed) == len(found.replicas):
        raise Refused(f"no replica of {found.name} could be started: {'; '.join(failed)}")
    failed += run_async(serve(fleets, found, wait=True))
    done(fleets, found, failed, as_json)


@fleet.command()
@click.argument("name", metavar="[FLEET]", required=False)
@click.option("--front-only", is_flag=True, help="End the front, and leave the pods running: they go on to cost.")
@as_json_option
@dry_run_option
def stop(name: str | None, front_only: bool, as_json: bool, dry_run: bool) -> None:
    """End a fleet's front, stop its pods, and wait until each stop is verified.

    Exit code: 0 all are stopped, 3 one may still cost.

    \b
    Example:
      passerelle fleet stop night
    """
    from control.errors import Unreachable
    from control.fleet import life
    from control.fleet.store import Fleets

    fleets = Fleets(home())
    found = choose(fleets, name)
    pods = () if front_only else found.replicas
    if dry_run:
        click.echo(f"would end the front of {found.name}, and stop {', '.join(pods) or 'no pod'}")
        return

    async def work() -> tuple[str, ...]:
        await life.stop_front(fleets, found.name)
        try:
            return await life.stop_pods(pods, progress())
        finally:
            end_progress()

    if failed := run_async(work()):
        raise Unreachable("not verified as stopped: " + "; ".join(failed), f"again: passerelle fleet stop {found.name}")
    if as_json:
        echo_json(_row(fleets, found) | {"stopped": pods})
    else:
        click.echo(f"fleet {found.name}: its front is gone, {len(pods)} pods are stopped, verified")


@fleet.command()
@click.argument("name", metavar="FLEET")
@click.option("--yes", is_flag=True, help="Do not ask: the pods' disks are lost.")
@dry_run_option
def terminate(name: str, yes: bool, dry_run: bool) -> None:
    """End a fleet and remove its pods with their disks.

    \b
    Example:
      passerelle fleet terminate night
    """
    from control.fleet import life
    from control.fleet.store import Fleets
    from control.providers import provider_of

    fleets = Fleets(home())
    found = fleets.load(name)
    if dry_run:
        click.echo(f"would end the front of {name}, and remove {', '.join(found.replicas) or 'no pod'}")
        return
    if not yes:
        click.confirm(f"remove fleet {name} and its pods {', '.join(found.replicas)} with their disks?", abort=True)

    async def work() -> None:
        await life.stop_front(fleets, name)
        for pod_id in found.replicas:
            await provider_of(pod_id).terminate(pod_id)
            click.echo(f"pod {pod_id} is gone", err=True)

    run_async(work())
    fleets.remove(name)
    click.echo(f"fleet {name} is gone")
