"""`passerelle bridge`: what a running engine takes, and which of the bridge's modes suits it."""

from __future__ import annotations

from dataclasses import replace

import click

from bridge.report import EngineProbe
from control.cli import echo_json, run_async
from control.cli_help import Verbs
from control.cli_output import as_json_option
from control.errors import PasserelleError, Unreachable
from control.models import Target


@click.group(cls=Verbs)
def bridge() -> None:
    """The bridge between Claude Code and an engine (docs/bridge.md).

    \b
    Examples:
      passerelle bridge explain
      passerelle bridge restart
    """


@bridge.command()
@click.argument("pod", metavar="[POD]", required=False)
@click.option("--url", metavar="URL", help="Ask this engine itself, instead of a pod; without /v1.")
@as_json_option
def explain(pod: str | None, url: str | None, as_json: bool) -> None:
    """Say what the running engine takes, and which mode of the bridge suits it.

    \b
    Examples:
      passerelle bridge explain                          the engine of your only pod, as its bridge learned it
      passerelle bridge explain --url http://gpu:8000    any engine; asks it about ten questions of one token
    """
    if pod is not None and url is not None:
        raise click.UsageError("name a pod or give a --url, not both")
    probe, mode = run_async(_of_engine(url.rstrip("/").removesuffix("/v1")) if url else _of_pod(pod))
    if as_json:
        echo_json({"mode": mode, "engine": replace(probe, metrics=None)})
        return
    window = "unknown" if probe.max_model_len is None else f"{probe.max_model_len:,} tokens"
    click.echo(
        f"engine   version {probe.version or 'unknown'}, window {window}, models {', '.join(probe.models) or '?'}"
    )
    if mode is not None:
        click.echo(f"mode     {mode}")
    click.echo(f"suits    {probe.suits or 'not known yet: the bridge has not finished asking'}")
    for feature, taken in (probe.supports or {}).items():
        click.echo(f"  {'takes  ' if taken else 'refuses'}  {feature}")


async def _of_pod(named: str | None) -> tuple[EngineProbe, str | None]:
    from control import providers
    from control.podlink import PodLink

    provider, pod = await providers.find_even_unheard(named)
    tokens = await provider.tokens(pod.id)
    async with PodLink(Target(pod.url or "", tokens.operator)) as link:
        report = await link.report()
    if report.engine.supports is None and not report.engine.reachable:
        raise Unreachable(
            f"the engine of {pod.id} does not answer: {report.engine.error}", "passerelle status says more"
        )
    return report.engine, report.mode


async def _of_engine(url: str) -> tuple[EngineProbe, None]:
    from bridge.errors import BridgeError
    from bridge.upstream import Upstream

    async with Upstream() as upstream:
        try:
            await upstream.look(url)
        except BridgeError as error:
            raise Unreachable(f"{url}: {error.message}", "give the engine's address without a path") from error
        if upstream.known.supports is None:
            raise PasserelleError(f"{url} answers, but not a plain chat completion", "try it with curl first")
        return await upstream.probe(url), None


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    cli.add_command(bridge)
