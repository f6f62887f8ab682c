"""`passerelle demo`: an embedded pod, six agents, and the screen or one JSON snapshot."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from control.cli import THEMES, OpenScreen, echo_json, need_terminal, show
from control.cli_options import engine_options
from control.demo import Work, headless, with_agents
from control.local.provider import LocalProvider, Options
from control.observe.snapshot import EXIT_CODES
from control.text import status_lines


@click.command()
@engine_options
@click.option("--agents", default=6, show_default=True, type=click.IntRange(1, 64))
@click.option("--context", nargs=2, type=int, default=(60_000, 150_000), show_default=True, help="Tokens: first, most.")
@click.option(
    "--result", nargs=2, type=int, default=(1_500, 7_000), show_default=True, help="Tokens of a tool's result."
)
@click.option("--model", default="qwen3-coder", show_default=True, help="The name that the agents ask for.")
@click.option("--headless", "no_screen", is_flag=True, help="No screen: print the last snapshot and clean up.")
@click.option("--seconds", default=20.0, show_default=True, help="With --headless: how long to run.")
@click.option("--json", "as_json", is_flag=True, help="With --headless: the snapshot as JSON.")
@click.option("--theme", type=THEMES, help="Colours; dark unless named.")
@click.pass_obj
def demo(
    screen: OpenScreen | None,
    engine: str,
    vllm: str | None,
    config: Path | None,
    port: int | None,
    price: float,
    sim: tuple[str, ...],
    agents: int,
    context: tuple[int, int],
    result: tuple[int, int],
    model: str,
    no_screen: bool,
    seconds: float,
    as_json: bool,
    theme: str | None,
) -> None:
    """Six agents at work on an embedded pod, on this machine, with nothing rented.

    Exit code of --headless: 0 when the pod worked, agents that wait for capacity included; 2 or 3 when it did not.

    \b
    Examples:
      passerelle demo
      passerelle demo --sim=--sim-kv-tokens --sim=400000       less KV cache: agents wait for capacity
      passerelle demo --headless --seconds 20 --json
    """
    options = Options(engine, vllm, config, sim, port, price)
    work = Work(agents=agents, first=context[0], limit=context[1], result=result, model=model)
    provider = LocalProvider()
    if no_screen:
        snap = headless(provider, options, work, seconds)
        if as_json:
            echo_json(replace(snap, log=snap.log[-10:], history=()))
        else:
            click.echo("\n".join(status_lines(snap)))
        if EXIT_CODES[snap.verdict] > 1:
            sys.exit(EXIT_CODES[snap.verdict])
        return
    need_terminal("demo", "passerelle demo --headless --json")
    click.echo("starting an embedded pod …", err=True)
    with_agents(provider, options, work, lambda session: show(screen, session, theme))


def register(cli: click.Group) -> None:
    """Add this verb to the command."""
    cli.add_command(demo)
