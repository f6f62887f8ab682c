"""The `passerelle` command: its verbs, what they print, and their exit codes.

0 done or healthy, 1 warning, 2 critical or refused, 3 unreachable, 64 usage. Errors go to stderr, one line that says
what and where, one that says what to do. click's exceptions and ours end here.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import click

from control.cli_help import THE_WAY, Verbs
from control.errors import PasserelleError, UsageError
from control.models import PodId, Target

T = TypeVar("T")

EXIT_USAGE = 64

THEMES = click.Choice(["dark", "light", "ansi"])

OpenScreen = Callable[[Any, str | None], Any]
"""console.app.run: (session, theme) -> Outcome. Handed in, since control never imports the console."""


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run one verb's work to its end."""
    return asyncio.run(work)


@click.group(
    cls=Verbs, epilog=THE_WAY, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="passerelle", message="passerelle %(version)s")
def cli() -> None:
    """Watch and steer the GPU pods that serve your Claude Code agents: rent, publish, connect, see, stop."""


async def choose(pod_id: str | None) -> PodId:
    """The pod that was named, or the only one that is not stopped. Raises NoSuchPod or UsageError."""
    from control.providers import find

    return (await find(pod_id))[1].id


def echo_json(value: object) -> None:
    """One JSON value on stdout, the same field names as in the types."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


@cli.command()
@click.argument("pod", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the whole snapshot as JSON.")
@click.option("--seconds", default=2.2, show_default=True, help="How long to look: a rate needs two polls.")
def status(pod: str | None, as_json: bool, seconds: float) -> None:
    """One look at a pod: is it working, what limits it, what does it cost.

    Exit code: 0 healthy, 1 warning, 2 critical, 3 unreachable.

    \b
    Examples:
      passerelle status
      passerelle status k3v9x0q2ab --json
    """
    from control.observe.snapshot import EXIT_CODES, Snapshot
    from control.observe.sources import Watch
    from control.observe.state import State
    from control.providers import find_even_unheard
    from control.text import status_lines

    async def look() -> Snapshot:
        provider, found = await find_even_unheard(pod)
        tokens = await provider.tokens(found.id)
        target = Target(found.url or "", tokens.operator)
        return await Watch(provider, found.id, target, State(pod=found)).look(seconds)

    snap = run_async(look())
    if as_json:
        echo_json(replace(snap, log=snap.log[-10:], history=()))
    else:
        click.echo("\n".join(status_lines(snap)))
    sys.exit(EXIT_CODES[snap.verdict])


@cli.command()
@click.argument("pod", required=False)
@click.option("--theme", type=THEMES, help="Colours; dark unless named.")
@click.pass_obj
def watch(screen: OpenScreen | None, pod: str | None, theme: str | None) -> None:
    """The screen: watch a pod live, and stop it with one key.

    While it is open it keeps the pod's budget: warns at 80 %, and at 100 % counts down 30 s and stops the pod, once.

    \b
    Examples:
      passerelle watch
      passerelle watch k3v9x0q2ab --theme light
    """
    from control.observe.session import PodSession
    from control.providers import find_even_unheard

    provider, found = run_async(find_even_unheard(pod))
    need_terminal("watch", "passerelle status --json")
    show(screen, run_async(PodSession.open(provider, found)), theme)


def need_terminal(verb: str, instead: str) -> None:
    """Raises UsageError where no screen can be drawn."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"passerelle {verb} needs a terminal", f"without one: {instead}")


def show(screen: OpenScreen | None, session: object, theme: str | None) -> None:
    """Open the screen and say the last word once it is gone."""
    if screen is None:
        raise UsageError("this command was started without its screen", "run `passerelle`, not `python -m control`")
    logging.disable()  # a line of it would stand across the picture
    try:
        outcome = screen(session, theme)
    finally:
        logging.disable(logging.NOTSET)
    if outcome.farewell:
        click.echo(outcome.farewell)


def run(argv: list[str], screen: OpenScreen | None) -> int:
    """Run one command line; returns its exit code and never raises for what a user can cause."""
    from control import (
        cli_bridge,
        cli_config,
        cli_connect,
        cli_cost,
        cli_create,
        cli_demo,
        cli_doctor,
        cli_fleet_up,
        cli_link,
        cli_log,
        cli_pod_life,
    )

    cli_create.register(cli)
    cli_pod_life.register(cli)
    cli_cost.register(cli)
    cli_config.register(cli)
    cli_demo.register(cli)
    cli_connect.register(cli)
    cli_doctor.register(cli)
    cli_bridge.register(cli)
    cli_link.register(cli)  # after the groups that it adds to
    cli_log.register(cli)
    cli_fleet_up.register(cli)
    try:
        cli.main(argv, prog_name="passerelle", standalone_mode=False, obj=screen)
    except PasserelleError as error:
        click.echo(f"passerelle: {error.message}", err=True)
        if error.remedy:
            click.echo(f"  {error.remedy}", err=True)
        return error.exit_code
    except OSError as error:
        # A full disk, a folder that cannot be written: the system's own words name the file.
        click.echo(f"passerelle: {error}", err=True)
        return PasserelleError.exit_code
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    return 0
