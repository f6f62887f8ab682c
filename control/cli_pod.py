"""The verbs of `passerelle pod`: the life of a pod."""

from __future__ import annotations

import time
from pathlib import Path

import click

from control.cli import choose, echo_json, run_async
from control.cost import cost_accrued
from control.local.provider import DEFAULT_PRICE, LocalProvider, Options
from control.models import Pod, PodId


@click.group()
def pod() -> None:
    """Create, list, stop, start and remove pods.

    \b
    Examples:
      passerelle pod create
      passerelle pod create --engine vllm --config pod.toml
      passerelle pod list
      passerelle pod restart engine
      passerelle pod stop local-3f2a
    """


def engine_options(command: click.decorators.FC) -> click.decorators.FC:
    """The options that say what an embedded pod is made of, the same for `pod create` and `demo`."""
    for option in (
        click.option(
            "--engine",
            type=click.Choice(["simulated", "vllm"]),
            default="simulated",
            show_default=True,
            help="The engine in the pod: a simulated one, or a real `vllm serve`.",
        ),
        click.option("--vllm", metavar="PATH", help="The vllm program; without it the one on PATH."),
        click.option("--config", type=click.Path(path_type=Path), help="A pod.toml (docs/config.md)."),
        click.option("--port", type=click.IntRange(1, 65535), help="The bridge's port; without it a free one."),
        click.option("--price", default=DEFAULT_PRICE, show_default=True, help="Dollars per hour to count."),
        click.option("--sim", multiple=True, metavar="FLAG", help="Flag of the simulated engine (docs/simulator.md)."),
    ):
        command = option(command)
    return command


@pod.command()
@engine_options
@click.option("--json", "as_json", is_flag=True)
def create(
    engine: str,
    vllm: str | None,
    config: Path | None,
    port: int | None,
    price: float,
    sim: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make an embedded pod on this machine and start it."""
    made = run_async(LocalProvider().create(Options(engine, vllm, config, sim, port, price)))
    _say(made, as_json, f"pod {made.id} runs at {made.url}; watch it: passerelle watch {made.id}")


@pod.command("list")
@click.option("--json", "as_json", is_flag=True)
def list_(as_json: bool) -> None:
    """Every pod, newest first."""
    pods = run_async(LocalProvider().list())
    if as_json:
        echo_json([_row(found) for found in pods])
        return
    if not pods:
        click.echo("no pods; create one with `passerelle pod create`, or try the demo: `passerelle demo`")
        return
    click.echo(f"{'POD':<14} {'STATE':<9} {'$/H':>6} {'SPENT $':>8}  URL")
    for found in pods:
        row = _row(found)
        click.echo(
            f"{row['id']:<14} {row['state']:<9} {found.price.per_hour:>6.2f} {row['cost_accrued']:>8.2f}  {found.url}"
        )


@pod.command()
@click.argument("pod_id", metavar="[POD]", required=False)
@click.option("--json", "as_json", is_flag=True)
def stop(pod_id: str | None, as_json: bool) -> None:
    """End a pod's compute, and wait until that is verified."""

    async def work() -> Pod:
        provider = LocalProvider()
        chosen = await choose(pod_id)
        await provider.stop(chosen)
        return await provider.wait_exited(chosen)

    stopped = run_async(work())
    _say(stopped, as_json, f"pod {stopped.id} is EXITED, verified; it spent {cost_accrued(stopped, time.time()):.2f} $")


@pod.command()
@click.argument("pod_id", metavar="POD")
@click.option("--json", "as_json", is_flag=True)
def start(pod_id: str, as_json: bool) -> None:
    """Start a stopped pod again."""
    started = run_async(LocalProvider().start(PodId(pod_id)))
    _say(started, as_json, f"pod {started.id} runs at {started.url}")


@pod.command()
@click.argument("service", type=click.Choice(["bridge", "engine"]))
@click.argument("pod_id", metavar="[POD]", required=False)
def restart(service: str, pod_id: str | None) -> None:
    """Restart the bridge (no stream is lost) or the engine (every stream is cut)."""
    from control.observe.session import PodSession

    async def work() -> PodId:
        session = await PodSession.open(LocalProvider(), await choose(pod_id))
        await session.restart(service)
        return session.pod_id

    click.echo(f"the {service} of {run_async(work())} is being restarted; see it: passerelle status")


@pod.command()
@click.argument("pod_id", metavar="POD")
@click.option("--yes", is_flag=True, help="Do not ask: its logs and configuration are lost.")
def terminate(pod_id: str, yes: bool) -> None:
    """Stop a pod and remove it with its disk."""

    async def work() -> None:
        provider = LocalProvider()
        await provider.get(PodId(pod_id))
        await provider.terminate(PodId(pod_id))

    if not yes:
        click.confirm(f"remove pod {pod_id} with its logs and configuration?", abort=True)
    run_async(work())
    click.echo(f"pod {pod_id} is gone")


@pod.command()
@click.argument("pod_id", metavar="[POD]", required=False)
def logs(pod_id: str | None) -> None:
    """The folder of a pod's log files."""
    click.echo(LocalProvider().logs(run_async(choose(pod_id))))


def _say(found: Pod, as_json: bool, sentence: str) -> None:
    if as_json:
        echo_json(_row(found))
    else:
        click.echo(sentence)


def _row(found: Pod) -> dict[str, object]:
    return {
        "id": found.id,
        "provider": found.provider,
        "state": found.state.value,
        "url": found.url,
        "cost_per_hour": found.price.per_hour,
        "cost_accrued": cost_accrued(found, time.time()),
        "created_at": found.created_at,
        "started_at": found.started_at,
    }


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    cli.add_command(pod)
