"""The verbs of `passerelle fleet`: several pods of one configuration behind one address."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from control.cli import echo_json, run_async
from control.cli_connect import Launches, deliver, environment_at, told_options
from control.cli_create import EMBEDDED, only_for, rent
from control.cli_options import engine_options, machine_options, rented_options
from control.cli_output import as_json_option, dry_run_option, end_progress, progress
from control.errors import PasserelleError, Refused, UsageError
from control.local.provider import LocalProvider, Options
from control.models import PodId
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


@fleet.command()
@click.argument("number", metavar="[N]", required=False, type=click.IntRange(1, 64))
@click.option("--pod", "pods", multiple=True, metavar="POD", help="A pod that is there, as a replica.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the front listens; 0.0.0.0: everywhere.")
@click.option(
    "--provider",
    type=click.Choice(["local", "runpod"]),
    default="local",
    show_default=True,
    help="local: on this machine, for trying; runpod: rented by the second.",
)
@rented_options
@machine_options
@engine_options
@as_json_option
@dry_run_option
@click.pass_context
def up(
    context: click.Context,
    /,
    number: int | None,
    pods: tuple[str, ...],
    host: str,
    provider: str,
    as_json: bool,
    dry_run: bool,
    **asked: Any,
) -> None:
    """Make N pods, and a front for them. The options are those of `pod create`; --name and --port are the fleet's.

    Every pod that was made is the fleet's from that moment on, also when a later one cannot be had.

    Exit code: 0 all serve, 1 some do, 2 none does.
    """
    if not number and not pods:
        raise UsageError("how many pods?", "passerelle fleet up 3, or name some that are there: --pod POD")
    only_for(context, provider, "fleet up", ("number", "pods", "host", "port", "name", "no_wait"))
    if dry_run:
        _would(number or 0, pods, provider, asked)
        return
    from control.fleet import life
    from control.fleet.store import Fleets

    fleets = Fleets(home())
    made = life.make(fleets, asked["name"], host, asked["port"])
    made, failed = run_async(_fill(fleets, made, number or 0, pods, provider, asked))
    if not made.replicas:
        fleets.remove(made.name)
        raise Refused(f"no replica could be had: {'; '.join(failed)}")
    failed += run_async(_serve(fleets, made, not asked["no_wait"]))
    _done(fleets, made, failed, as_json)


def _would(number: int, pods: tuple[str, ...], provider: str, asked: dict[str, Any]) -> None:
    for pod in pods:
        click.echo(f"would take pod {pod} as it is")
    if number and provider == "local":
        click.echo(f"would start {number} embedded pods with a {asked['engine']} engine; nothing is rented")
    elif number:
        from control.providers import open_rented

        click.echo(f"would rent {number} pods, one after the other, each by this request:", err=True)
        run_async(rent(open_rented(), asked, dry_run=True))
    click.echo("would start a front on this machine: a bridge and vllm-router")


async def _fill(
    fleets: Fleets, made: Fleet, number: int, pods: tuple[str, ...], provider: str, asked: dict[str, Any]
) -> tuple[Fleet, tuple[str, ...]]:
    """The fleet with its replicas, and why it has fewer than it should."""
    from control.providers import find

    try:
        for named in pods:
            made = _with(fleets, made, (await find(named, stopped_too=True))[1].id)
        for at in range(number):
            pod_id = await _one_more(made, provider, asked)
            made = _with(fleets, made, pod_id)
            click.echo(f"{at + 1} of {number}: pod {pod_id}", err=True)
    except PasserelleError as error:
        return made, (" ".join(filter(None, (error.message, error.remedy))),)
    return made, ()


async def _one_more(made: Fleet, provider: str, asked: dict[str, Any]) -> PodId:
    if provider == "local":
        options = Options(**{name: asked[name] for name in EMBEDDED} | {"port": None})
        return (await LocalProvider().create(options)).id
    from control.providers import open_rented

    rented = await rent(open_rented(), asked | {"name": made.name, "no_wait": True}, dry_run=False)
    assert rented is not None
    return rented.id


def _with(fleets: Fleets, made: Fleet, pod_id: PodId) -> Fleet:
    grown = replace(made, replicas=(*(one for one in made.replicas if one != pod_id), pod_id))
    fleets.save(grown)
    return grown


async def _serve(fleets: Fleets, made: Fleet, wait: bool) -> tuple[str, ...]:
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


def _done(fleets: Fleets, made: Fleet, failed: tuple[str, ...], as_json: bool) -> None:
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
    """Every fleet: its address, whether its front runs, its replicas."""
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
    """
    from control.fleet import life
    from control.fleet.store import Fleets

    fleets = Fleets(home())
    found = choose(fleets, name)
    failed = run_async(life.start_pods(found.replicas))
    if len(failed) == len(found.replicas):
        raise Refused(f"no replica of {found.name} could be started: {'; '.join(failed)}")
    failed += run_async(_serve(fleets, found, wait=True))
    _done(fleets, found, failed, as_json)


@fleet.command()
@click.argument("name", metavar="[FLEET]", required=False)
@click.option("--front-only", is_flag=True, help="End the front, and leave the pods running: they go on to cost.")
@as_json_option
@dry_run_option
def stop(name: str | None, front_only: bool, as_json: bool, dry_run: bool) -> None:
    """End a fleet's front, stop its pods, and wait until each stop is verified.

    Exit code: 0 all are stopped, 3 one may still cost.
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
    """End a fleet and remove its pods with their disks."""
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


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    cli.add_command(fleet)
