"""The verbs of `passerelle pod` that look. cli_create has those that make a pod, cli_pod_life those that act on one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from control.cli import echo_json, run_async
from control.cli_help import Verbs
from control.cli_output import as_json_option, end_progress, progress, row, say
from control.clock import Clock
from control.cost import cost_accrued
from control.models import Pod, PodId, PodState
from control.phases import clock as minutes

if TYPE_CHECKING:
    from control.provider import Provider


@click.group(cls=Verbs)
def pod() -> None:
    """Create, list, stop, start and remove pods.

    \b
    Examples:
      passerelle pod create                                        an embedded pod, on this machine
      passerelle pod offers --gpu a40 --gpu pro6000                what RunPod has, and for how much
      passerelle pod create --provider runpod --gpu a40 --gpu ada --max-price 0.8 --budget 5
      passerelle pod list
      passerelle pod wait
      passerelle pod stop k3v9x0q2ab
    """


@pod.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """Every pod, newest first: the embedded ones, and those of the RunPod account.

    Exit code 1 when a provider could not be asked: what it has is then missing, or listed as it was last known.

    \b
    Example:
      passerelle pod list --json
    """
    from control.providers import every_pod

    pods, failed = run_async(every_pod())
    for why in failed:
        click.echo(f"passerelle: not listed: {why}", err=True)
    if as_json:
        echo_json([row(found) for found in pods])
    elif not pods and not failed:
        click.echo("no pods; create one with `passerelle pod create`, or try the demo: `passerelle demo`")
    elif pods:
        click.echo(f"{'POD':<15} {'STATE':<10} {'GPU':<12} {'$/H':>6} {'SPENT $':>8}  WHERE")
        for found in pods:
            click.echo(_line(found))
    if failed or any(found.state is PodState.UNKNOWN for found in pods):
        sys.exit(1)


def _line(found: Pod) -> str:
    from control.runpod.gpus import short

    gpu = f"{found.gpu_count}×{short(found.gpu)}" if found.gpu else "-"
    where = found.url or "-"
    if not found.ours:
        where = f"not ours ({found.name}); take it over: passerelle pod adopt {found.id}"
    elif found.note:
        where = f"{where}  {found.note}"
    spent = cost_accrued(found, Clock().now())
    return f"{found.id:<15} {found.state:<10} {gpu:<12} {found.price.per_hour:>6.2f} {spent:>8.2f}  {where}"


@pod.command()
@click.argument("pod_id", metavar="[POD]", required=False)
@as_json_option
def status(pod_id: str | None, as_json: bool) -> None:
    """What the provider says of a pod. What the pod says of itself: passerelle status.

    Exit code: 0, 2 its provider gave it up, 3 its provider does not say: what was last known is printed.

    \b
    Example:
      passerelle pod status k3v9x0q2ab
    """
    from control.providers import find_even_unheard

    found = run_async(find_even_unheard(pod_id, stopped_too=True))[1]
    if as_json:
        echo_json(row(found))
    else:
        _print(found)
    sys.exit({PodState.ERROR: 2, PodState.UNKNOWN: 3}.get(found.state, 0))


def _print(found: Pod) -> None:
    spent = cost_accrued(found, Clock().now())
    click.echo(f"{found.id}  {found.state}  {found.note}".rstrip())
    facts = [
        ("name", found.name),
        ("gpu", f"{found.gpu_count} × {found.gpu}" if found.gpu else ""),
        ("where", " ".join(part for part in (found.provider, found.data_center) if part)),
        ("image", found.image or ""),
        ("url", found.url or ""),
        ("ssh", f"{found.ssh.user}@{found.ssh.host} -p {found.ssh.port}" if found.ssh else ""),
        ("runs", minutes(Clock().now() - found.started_at) if found.started_at is not None else "no"),
        ("money", f"{found.price.per_hour:.2f} $/h, {spent:.2f} $ so far; passerelle cost {found.id}"),
    ]
    for name, value in facts:
        if value:
            click.echo(f"  {name:<6} {value}")


@pod.command()
@click.argument("pod_id", metavar="[POD]", required=False)
@click.option("--within", type=float, metavar="SECONDS", help="Give up after so long; else when a phase is stuck.")
@as_json_option
def wait(pod_id: str | None, within: float | None, as_json: bool) -> None:
    """Wait until a pod's engine serves, and say how far it is.

    Exit code: 0 it serves, 2 it never will, 3 it does not yet.

    \b
    Examples:
      passerelle pod wait
      passerelle pod wait k3v9x0q2ab --within 600 --json
    """
    from control.providers import find_even_unheard

    async def work() -> Pod:
        provider, found = await find_even_unheard(pod_id)
        return await until_serving(provider, found.id, within)

    found = run_async(work())
    say(found, as_json, f"pod {found.id} serves at {found.url}")


async def until_serving(provider: Provider, pod_id: PodId, within: float | None) -> Pod:
    """With the progress on stderr, and the durations kept for the next time."""
    from control import waiting
    from control.durations import Durations
    from control.store import home

    before = Durations(home(), provider.name)
    try:
        return await waiting.serving(provider, pod_id, Clock(), progress(), before.known(), before.learn, within)
    finally:
        end_progress()


@pod.command()
@click.argument("pod_id", metavar="[POD]", required=False)
@click.option("--tail", default=200, show_default=True, type=click.IntRange(0, 5000), help="Lines to begin with.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until you stop it.")
@click.option("--folder", is_flag=True, help="Of an embedded pod: print the folder of its log files.")
def logs(pod_id: str | None, tail: int, follow: bool, folder: bool) -> None:
    """What the provider kept of a pod's output, known secrets masked. What the pod itself tells: passerelle log.

    \b
    Example:
      passerelle pod logs --tail 1000 --follow
    """
    from control.errors import Refused
    from control.keys import HUGGING_FACE, RUNPOD, Keys, masked
    from control.local.provider import LocalProvider
    from control.providers import find

    async def work() -> None:
        provider, found = await find(pod_id, stopped_too=True)
        if folder:
            if not isinstance(provider, LocalProvider):
                raise Refused(f"pod {found.id} has its log files at {provider.name}", "leave --folder out")
            click.echo(provider.logs(found.id))
            return
        keys = Keys()
        tokens = keys.tokens(found.id)
        known = (tokens.client, tokens.operator) if tokens else ()
        secrets = (*known, keys.get(RUNPOD) or "", keys.get(HUGGING_FACE) or "")
        async for line in provider.log_lines(found.id, tail, follow):
            click.echo(masked(f"{line.at} {line.text}".strip(), secrets))

    run_async(work())
