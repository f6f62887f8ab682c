"""How the verbs speak: options that several have, progress on stderr, a pod as a line or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from control.cli import echo_json
from control.clock import Clock
from control.cost import cost_accrued
from control.models import Pod


def as_json_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


def dry_run_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option("--dry-run", is_flag=True, help="Print what would be asked, and ask for nothing.")(command)


def progress() -> Callable[[str], None]:
    """Says how far it is, on stderr: one line that is rewritten on a terminal, else a line when its words change."""
    said = ""

    def say(text: str) -> None:
        nonlocal said
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            return
        words = text.partition("  ")[2].partition(", about")[0].partition(" (")[0] or text
        if words != said:
            said = words
            click.echo(text, err=True)

    return say


def end_progress() -> None:
    if sys.stderr.isatty():
        click.echo("", err=True)


def say(found: Pod, as_json: bool, sentence: str) -> None:
    if as_json:
        echo_json(row(found))
    else:
        click.echo(sentence)


def would(found: Pod, action: str) -> str:
    """The request of a verb that was not sent."""
    if found.provider == "local":
        return f"would {action} the processes of {found.id} on this machine"
    if action == "terminate":
        return f"DELETE /v2/pods/{found.id}"
    return f'POST /v2/pods/{found.id}/action\n{{"action": "{action}"}}'


def row(found: Pod) -> dict[str, object]:
    """A pod as every verb prints it with --json."""
    return {
        "id": found.id,
        "name": found.name,
        "provider": found.provider,
        "state": found.state.value,
        "note": found.note,
        "phase": found.phase,
        "ours": found.ours,
        "url": found.url,
        "ssh": found.ssh,
        "gpu": found.gpu,
        "gpu_count": found.gpu_count,
        "data_center": found.data_center,
        "image": found.image,
        "cost_per_hour": found.price.per_hour,
        "cost_accrued": cost_accrued(found, Clock().now()),
        "disk_per_day": found.price.disk_per_day,
        "budget": found.budget,
        "created_at": found.created_at,
        "started_at": found.started_at,
    }
