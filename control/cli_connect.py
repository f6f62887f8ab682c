"""`passerelle connect` and `passerelle statusline`: Claude Code on this machine, at a pod."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from control import claude_code, claude_settings, shells, statusline
from control.cli import run_async
from control.connect import Environment, Serving, environment, serving
from control.errors import PasserelleError, Unreachable, UsageError
from control.models import Target, Tokens
from control.providers import find_even_unheard

if TYPE_CHECKING:
    from control.podlink import PodLink

COMMAND = "passerelle.command"
ASK_EVERY_S = 0.5


class Launches(click.Command):
    """A command that takes another one after `--`, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND], args = args[at + 1 :], args[:at]
            if not ctx.meta[COMMAND]:
                raise click.UsageError("-- needs a command after it, such as: -- claude", ctx)
        return super().parse_args(ctx, args)


def told_options(command: click.decorators.FC) -> click.decorators.FC:
    """How it is told: the same for `connect` and `fleet connect`."""
    for option in (
        click.option(
            "--shell", type=click.Choice(list(shells.WRITERS)), help="Whose words to print; yours without it."
        ),
        click.option("--json", "as_json", is_flag=True, help="The same as --shell json."),
        click.option(
            "--settings",
            "settings_file",
            type=click.Path(path_type=Path, dir_okay=False),
            is_flag=False,
            flag_value=claude_settings.USUAL,
            metavar="[FILE]",
            help=f"Write them into a project's settings instead ({claude_settings.USUAL}).",
        ),
        click.option(
            "--wait", default=60.0, show_default=True, help="Seconds for the engine to serve, and one answer."
        ),
        click.option("--no-check", is_flag=True, help="Do not try one real request first."),
    ):
        command = option(command)
    return command


@click.command(cls=Launches)
@click.argument("pod", metavar="[POD]", required=False)
@told_options
@click.pass_context
def connect(ctx: click.Context, /, pod: str | None, wait: float, no_check: bool, **told: Any) -> None:
    """Point Claude Code at a pod, once one real request of one token has been answered.

    Prints what to set; the token is printed whole, as it is what you came for. Every value is quoted, since a model's
    name is the pod's word.

    \b
    Examples:
      eval "$(passerelle connect)"                          bash, zsh
      passerelle connect --shell fish | source
      passerelle connect --shell powershell | Out-String | Invoke-Expression
      passerelle connect --settings                         for this project alone
      passerelle connect -- claude --continue
    """
    deliver(ctx, lambda: _environment(pod, wait, not no_check), **told)


def deliver(
    ctx: click.Context,
    find: Callable[[], Coroutine[Any, Any, Environment]],
    shell: str | None,
    as_json: bool,
    settings_file: Path | None,
) -> None:
    """Find what must be set, and print it, write it, or run the command that came after `--` with it."""
    command = ctx.meta.get(COMMAND)
    if command and (settings_file or shell or as_json):
        raise UsageError("either a command after --, or --settings, or words for a shell")
    env = run_async(find())
    if command:
        ctx.exit(claude_code.become(command, env.applied(dict(os.environ))))
    if doubt := claude_code.doubt(claude_code.find()):
        click.echo(f"passerelle: {doubt}", err=True)
    if settings_file:
        _write_settings(settings_file, env)
        return
    name = "json" if as_json else shell or shells.usual(os.environ.get("SHELL"), sys.platform == "win32")
    click.echo(shells.WRITERS[name](env))


async def _environment(pod: str | None, wait: float, check: bool) -> Environment:
    provider, found = await find_even_unheard(pod)
    if found.url is None:
        raise Unreachable(f"pod {found.id} has no address yet", f"wait for it: passerelle watch {found.id}")
    tokens = await provider.tokens(found.id)
    return await environment_at(found.url, tokens, found.id, f"passerelle status {found.id}", wait, check)


async def environment_at(url: str, tokens: Tokens, name: str, see: str, wait: float, check: bool) -> Environment:
    """For the bridge at that address. `see` is the verb that shows what is the matter with it."""
    from control.podlink import PodLink

    async with PodLink(Target(url, tokens.operator)) as link:
        served = await _served(link, name, wait)
    if check:
        async with PodLink(Target(url, tokens.client)) as link:
            try:
                await link.one_token(served.model, max(wait, 1.0))
            except PasserelleError as error:
                error.remedy = error.remedy or f"see what it does: {see} (--no-check skips this)"
                raise
    return environment(url, tokens.client, served)


async def _served(link: PodLink, name: str, wait: float) -> Serving:
    """What the pod serves, once it does; said once when that takes a while."""
    until, told = time.monotonic() + wait, False
    while True:
        try:
            return serving(await link.report())
        except Unreachable:
            if time.monotonic() >= until:
                raise
        if not told:
            click.echo(f"passerelle: the engine of {name} does not serve yet; waiting", err=True)
            told = True
        await asyncio.sleep(ASK_EVERY_S)


def _write_settings(path: Path, env: Environment) -> None:
    replaced = claude_settings.write(path, env, _status_line_command())
    click.echo(f"{path}: Claude Code in this project now uses {env.set['ANTHROPIC_BASE_URL']}")
    if replaced:
        kept = path.name + claude_settings.BEFORE
        click.echo(f"  replaced your {', '.join(replaced)}; the file as it was: {kept}", err=True)
    click.echo("  it holds the pod's token: only you can read it, and it must not be committed", err=True)
    if claude_settings.git_would_take(path):
        click.echo(f"  git does not ignore it: add {path.name} to .gitignore", err=True)


def _status_line_command() -> str:
    """How Claude Code calls us, whatever its PATH is."""
    found = shutil.which("passerelle")
    words = [found, "statusline"] if found else [sys.executable, "-m", "control", "statusline"]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


@click.command("statusline")
def status_line() -> None:
    """One line for Claude Code's status line, from the session on stdin: the model, and the window's true fill.

    \b
    Example, in a settings file of Claude Code (`passerelle connect --settings` writes it):
      "statusLine": {"type": "command", "command": "passerelle statusline"}
    """
    told = os.environ.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "")
    window = int(told) if told.isdecimal() and int(told) > 0 else None
    click.echo(statusline.line(sys.stdin.buffer.read(), window))


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    cli.add_command(connect)
    cli.add_command(status_line)
