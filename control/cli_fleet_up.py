"""`passerelle fleet up`: pods made or taken as they are, and a front for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from control.cli import run_async
from control.cli_create import EMBEDDED, only_for, rent
from control.cli_fleet import done, fleet, serve
from control.cli_options import pod_options
from control.cli_output import as_json_option, dry_run_option
from control.errors import PasserelleError, Refused, UsageError
from control.local.provider import LocalProvider, Options
from control.models import PodId
from control.store import home

if TYPE_CHECKING:
    from control.fleet.models import Fleet
    from control.fleet.store import Fleets


@fleet.command()
@click.argument("number", metavar="[N]", required=False, type=click.IntRange(1, 64))
@click.option("--pod", "pods", multiple=True, metavar="POD", help="A pod that is there, as a replica.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the front listens; 0.0.0.0: everywhere.")
@pod_options
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

    \b
    Example:
      passerelle fleet up 3
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
    failed += run_async(serve(fleets, made, not asked["no_wait"]))
    done(fleets, made, failed, as_json)


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


def register(cli: click.Group) -> None:
    """Add the verbs of `fleet` to the command."""
    cli.add_command(fleet)
