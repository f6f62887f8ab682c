"""The verbs of `passerelle config` that look, and `pod build`; those that publish are in control.cli_publish."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from control.cli import echo_json, run_async
from control.cli_help import Verbs
from control.cli_output import as_json_option
from control.errors import UsageError

if TYPE_CHECKING:
    from control.desk import Desk
    from control.hub import Version
    from control.outlook import Outlook

T = TypeVar("T")

PLAN_EXIT = {"nothing": 0, "reload bridge": 0, "swap model": 1, "restart engine": 1, "needs a new pod": 2}

pod_option = click.option("--pod", metavar="POD", help="The pod's id or name; without it the only one.")
hub_option = click.option("--hub", metavar="URL", help="Another store than the pod's own: hf://… or dir://…")
file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
code_option = click.option("--code", "with_code", is_flag=True, help="This version of passerelle's pod code too.")


@click.group(cls=Verbs)
def config() -> None:
    """The pod's configuration, pod.toml (docs/config.md).

    \b
    Examples:
      passerelle config check pod.toml             is it good?
      passerelle config plan pod.toml              what would restart, and for how long?
      passerelle config publish pod.toml           publish it, and see it in force
      passerelle config edit                       the same on what is published, in your editor
      passerelle config history                    what was published, and when
      passerelle config rollback                   back to the version before
    """


@config.command()
@file_argument
@as_json_option
def check(file: Path, as_json: bool) -> None:
    """Read FILE as the pod would, and say what is wrong with it.

    \b
    Example:
      passerelle config check pod.toml
    """
    from control import draft

    spec = draft.check(read(file), str(file))
    if as_json:
        echo_json({"ok": True, "serial": spec.serial, "model": spec.serve.model})
    else:
        click.echo(f"{file}: good (serial {spec.serial}, model {spec.serve.model})")


@config.command()
@file_argument
@pod_option
@hub_option
@code_option
@as_json_option
def plan(file: Path, pod: str | None, hub: str | None, with_code: bool, as_json: bool) -> None:
    """What publishing FILE would change and restart. Nothing is published.

    Exit code: 0 nothing or a reload of the bridge, 1 the engine restarts or swaps its model, 2 it needs a new pod.

    \b
    Examples:
      passerelle config plan pod.toml
      passerelle config plan pod.toml --json
    """
    from control import outlook as outlooks

    text = read(file)

    async def work(desk: Desk) -> Outlook:
        return await desk.publisher.look(text, str(file), desk.code(with_code))

    outlook = at_desk(pod, hub, work)
    if as_json:
        echo_json(outlooks.values(outlook))
    else:
        click.echo("\n".join(outlooks.lines(outlook)))
    raise SystemExit(PLAN_EXIT[outlook.plan.action])


@config.command()
@pod_option
@hub_option
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 500), help="How many, newest first.")
@as_json_option
def history(pod: str | None, hub: str | None, limit: int, as_json: bool) -> None:
    """What was published, newest first.

    \b
    Example:
      passerelle config history --limit 5
    """

    async def work(desk: Desk) -> tuple[Version, ...]:
        return await desk.store.history(limit)

    found = at_desk(pod, hub, work)
    if as_json:
        echo_json(found)
        return
    for version in found:
        click.echo(f"{version.commit[:12]:<14} {_when(version.at)}  {version.author:<12} {version.title}")


@click.command()
@click.option(
    "-o",
    "--output",
    default=Path("passerelle.pyz"),
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write it.",
)
@as_json_option
def build(output: Path, as_json: bool) -> None:
    """Build the pod's code as one file: bridge, bootstrap and what the vLLM image lacks, always the same bytes.

    \b
    Example:
      passerelle pod build -o /tmp/passerelle.pyz && python3 /tmp/passerelle.pyz --help
    """
    from control import zipapp
    from control.store import write_whole

    made = zipapp.build()
    write_whole(output, made.data, 0o755)
    if as_json:
        echo_json({"path": str(output), "bytes": len(made.data), "sha256": made.sha256})
    else:
        click.echo(f"{output}  {len(made.data)} bytes  sha256 {made.sha256}")


def at_desk(pod: str | None, hub: str | None, work: Callable[[Desk], Awaitable[T]]) -> T:
    """Run one verb's work with the pod's store and the ways to the pod open."""
    from control.desk import open_desk

    async def run() -> T:
        async with open_desk(pod, hub) as desk:
            return await work(desk)

    return run_async(run())


def read(file: Path) -> str:
    """Raises UsageError."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}", "give the path of a pod.toml (docs/config.md)") from error


def _when(at: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def register(cli: click.Group) -> None:
    """Add these verbs to the command; `pod` must be there."""
    from control import cli_publish

    cli_publish.register(config)
    cli.add_command(config)
    pods = cli.commands["pod"]
    assert isinstance(pods, click.Group)
    pods.add_command(build)
