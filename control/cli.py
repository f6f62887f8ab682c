"""The `passerelle` command: its verbs, what they print, and their exit codes.

0 done or healthy, 1 warning, 2 critical or refused, 3 unreachable, 64 usage. Errors go to stderr, one line that says
what and where, one that says what to do. click's exceptions and ours end here.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from control.errors import PasserelleError, UsageError
from control.models import PodId, Target

T = TypeVar("T")

EXIT_USAGE = 64

THEMES = click.Choice(["dark", "light", "ansi"])

OpenScreen = Callable[[Any, str | None], Any]
"""console.app.run: (session, theme) -> Outcome. Handed in, since control never imports the console."""

EXAMPLES = """\b
Examples:
  passerelle demo                         six agents on an embedded pod, and the screen
  passerelle demo --headless --seconds 20 --json
  passerelle pod create                   an embedded pod of your own
  passerelle connect                      what to set so that Claude Code talks to it
  passerelle watch                        the screen
  passerelle status --json                one look, for scripts
  passerelle pod stop                     the end of compute, verified
"""


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run one verb's work to its end."""
    return asyncio.run(work)


@click.group(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="passerelle", message="passerelle %(version)s")
def cli() -> None:
    """Watch and steer the GPU pod that serves your Claude Code agents."""


async def choose(pod_id: str | None) -> PodId:
    """The pod that was named, or the only one that is not stopped. Raises NoSuchPod or UsageError."""
    from control.errors import NoSuchPod
    from control.local.provider import LocalProvider
    from control.models import PodState
    from control.store import CREATE

    provider = LocalProvider()
    if pod_id is not None:
        return (await provider.get(PodId(pod_id))).id
    pods = await provider.list()
    live = [pod for pod in pods if pod.state is not PodState.EXITED]
    if len(live) == 1:
        return live[0].id
    if live:
        raise UsageError("several pods run: " + ", ".join(pod.id for pod in live), "name the one that you mean")
    if pods:
        ids = ", ".join(pod.id for pod in pods)
        raise NoSuchPod(f"no pod runs (stopped: {ids})", f"start one again: passerelle pod start {pods[0].id}")
    raise NoSuchPod("there is no pod", CREATE)


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
    """
    from control.local.provider import LocalProvider
    from control.observe.snapshot import EXIT_CODES, Snapshot
    from control.observe.sources import Watch
    from control.text import status_lines

    async def look() -> Snapshot:
        provider = LocalProvider()
        pod_id = await choose(pod)
        found, tokens = await provider.get(pod_id), await provider.tokens(pod_id)
        return await Watch(provider, pod_id, Target(found.url or "", tokens.operator)).look(seconds)

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
    """The screen: watch a pod live, and stop it with one key."""
    from control.local.provider import LocalProvider
    from control.observe.session import PodSession

    pod_id = run_async(choose(pod))
    need_terminal("watch", "passerelle status --json")
    show(screen, run_async(PodSession.open(LocalProvider(), pod_id)), theme)


def need_terminal(verb: str, instead: str) -> None:
    """Raises UsageError where no screen can be drawn."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"passerelle {verb} needs a terminal", f"without one: {instead}")


def show(screen: OpenScreen | None, session: object, theme: str | None) -> None:
    """Open the screen and say the last word once it is gone."""
    if screen is None:
        raise UsageError("this command was started without its screen", "run `passerelle`, not `python -m control`")
    outcome = screen(session, theme)
    if outcome.farewell:
        click.echo(outcome.farewell)


@cli.command()
@click.argument("pod", required=False)
@click.option("--json", "as_json", is_flag=True)
def connect(pod: str | None, as_json: bool) -> None:
    """Print what Claude Code needs to talk to a pod. The token is printed whole: it is what you came for.

    Made for `eval "$(passerelle connect)"`: every value is quoted, since the model's name is the pod's word.
    """
    from control.connect import claude_code_env

    env = run_async(claude_code_env(run_async(choose(pod))))
    if as_json:
        echo_json(env)
        return
    for name, value in env.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@cli.group()
def config() -> None:
    """The pod's configuration, pod.toml (docs/config.md)."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True)
def check(file: Path, as_json: bool) -> None:
    """Read FILE as the pod would, and say what is wrong with it.

    \b
    Example:
      passerelle config check pod.toml
    """
    from control.local.provider import check_config

    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    spec = check_config(text, str(file))
    if as_json:
        echo_json({"ok": True, "serial": spec.serial, "model": spec.serve.model})
    else:
        click.echo(f"{file}: good (serial {spec.serial}, model {spec.serve.model})")


def run(argv: list[str], screen: OpenScreen | None) -> int:
    """Run one command line; returns its exit code and never raises for what a user can cause."""
    from control import cli_demo, cli_pod

    cli_pod.register(cli)
    cli_demo.register(cli)
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
