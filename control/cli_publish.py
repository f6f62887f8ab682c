"""The verbs of `passerelle config` that publish: a file, an edit of what is there, or an older version again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from control.cli import echo_json
from control.cli_config import at_desk, code_option, file_argument, hub_option, pod_option, read
from control.cli_output import as_json_option, end_progress, progress

if TYPE_CHECKING:
    from control.desk import Desk
    from control.draft import Code
    from control.hub import Published
    from control.outlook import Outlook

WAIT_S = 60.0

idle_option = click.option("--when-idle", is_flag=True, help="Wait until no stream is in flight, then publish.")
wait_option = click.option(
    "--wait", default=WAIT_S, show_default=True, metavar="S", help="Seconds to see it in force; 0 does not look."
)


@dataclass(frozen=True, slots=True)
class Sending:
    """The options of a verb that publishes."""

    pod: str | None
    hub: str | None
    when_idle: bool
    wait_s: float
    as_json: bool = False
    ask: bool = False
    """Show the plan, and ask before anything is published."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be published. `made_from`: what was published when the text was made, where it must be so still."""

    text: str
    name: str
    code: Code | None = None
    made_from: Published | None = None


@click.command()
@file_argument
@pod_option
@hub_option
@code_option
@idle_option
@wait_option
@as_json_option
def publish(
    file: Path, pod: str | None, hub: str | None, with_code: bool, when_idle: bool, wait: float, as_json: bool
) -> None:
    """Publish FILE to a pod, and wait until it is in force there.

    Its serial is set, it is signed with the pod's operator token, and nobody else's publish is overwritten. The code
    that is published stays, unless there is none yet or --code is given.

    Exit code: 0 in force (or no pod runs), 2 refused by the pod or overtaken by another publish, 3 the pod is silent.

    \b
    Examples:
      passerelle config publish pod.toml
      passerelle config publish pod.toml --when-idle
      passerelle config publish pod.toml --pod a40-3f2a --code
    """
    text = read(file)

    async def given(desk: Desk) -> Source:
        return Source(text, str(file), desk.code(with_code))

    _send(given, Sending(pod, hub, when_idle, wait, as_json))


@click.command()
@click.argument("version", required=False)
@pod_option
@hub_option
@click.option("--code", "with_code", is_flag=True, help="Go back to that version's pod code too.")
@idle_option
@wait_option
@as_json_option
def rollback(
    version: str | None,
    pod: str | None,
    hub: str | None,
    with_code: bool,
    when_idle: bool,
    wait: float,
    as_json: bool,
) -> None:
    """Publish an older version again, under a new serial: VERSION of `config history`, or the one before the newest.

    \b
    Examples:
      passerelle config rollback
      passerelle config rollback 3f9c2e71
    """

    async def restored(desk: Desk) -> Source:
        from control import draft
        from control.desk import code_in, older
        from control.hub import CODE, CONFIG

        chosen = await older(desk.store, version)
        there = await desk.store.read((CONFIG, CODE), chosen)
        name = f"version {chosen[:12]}"
        text = draft.text_of(there, f"{name} of {desk.store.url}")
        return Source(text, name, code_in(there) if with_code else None)

    _send(restored, Sending(pod, hub, when_idle, wait, as_json))


@click.command()
@pod_option
@hub_option
@idle_option
@wait_option
def edit(pod: str | None, hub: str | None, when_idle: bool, wait: float) -> None:
    """Edit what is published in your editor ($VISUAL, $EDITOR), see the plan, and publish it.

    \b
    Example:
      EDITOR=nano passerelle config edit
    """

    async def published(desk: Desk) -> Source:
        from control import draft
        from control.hub import CONFIG

        there = await desk.store.read((CONFIG,))
        return Source(draft.text_of(there, desk.store.url), "your edit", made_from=there)

    before = at_desk(pod, hub, published)
    text = _edited(before.text)
    if text is None:
        click.echo("nothing was changed")
        return

    async def edited(desk: Desk) -> Source:
        return Source(text, before.name, made_from=before.made_from)

    _send(edited, Sending(pod, hub, when_idle, wait, ask=True))


def _send(source: Callable[[Desk], Awaitable[Source]], sending: Sending) -> None:
    from control import outlook as outlooks
    from control.publish import Overtaken

    say = _silent if sending.as_json else progress()

    async def work(desk: Desk) -> dict[str, object]:
        found = await source(desk)
        outlook = await desk.publisher.look(found.text, found.name, found.code, found.made_from)
        if not sending.as_json:
            click.echo("\n".join(outlooks.lines(outlook)))
        if sending.ask:
            click.confirm("publish it?", abort=True)
        if sending.when_idle:
            await desk.publisher.idle(say)
        commit = await desk.publisher.send(outlook.draft)
        return outlooks.values(outlook) | {"commit": commit} | await _seen(desk, outlook, sending, say)

    try:
        result = at_desk(sending.pod, sending.hub, work)
    except Overtaken as overtaken:
        click.echo("\n".join(overtaken.diff), err=True)
        raise
    finally:
        end_progress()
    if sending.as_json:
        echo_json(result)
    else:
        click.echo(_done(result))


async def _seen(desk: Desk, outlook: Outlook, sending: Sending, say: Callable[[str], None]) -> dict[str, object]:
    """What came of it at the pod, so far as was asked."""
    if outlook.status is None or sending.wait_s <= 0:
        return {"applied": None, "why": outlook.why_unknown or "not looked for"}
    applied = await desk.publisher.applied(outlook.draft, outlook.status, sending.wait_s, say)
    return {"applied": applied.plan, "why": ""}


def _done(result: dict[str, object]) -> str:
    published = f"published as serial {result['serial']} (commit {str(result['commit'])[:12]})"
    if result["applied"] is None:
        return f"{published}; not seen in force: {result['why']}"
    return f"{published}, in force: {result['applied']}"


def _edited(before: str) -> str | None:
    """What the user made of it, asked again while it is wrong; None when it is as it was."""
    from control import draft

    text: str | None = before
    while True:
        text = click.edit(text, extension=".toml", require_save=False)
        if text is None or text == before:
            return None
        try:
            draft.check(text, "your edit")
        except draft.ConfigRefused as error:
            click.echo(error.message, err=True)
            click.confirm("edit it again?", default=True, abort=True)
            continue
        return text


def _silent(text: str) -> None:
    return None


def register(config: click.Group) -> None:
    """Add these verbs to the group."""
    for verb in (publish, edit, rollback):
        config.add_command(verb)
