"""`passerelle init` and `passerelle doctor`: set up once, and see whether it holds."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from control import settings
from control.cli import echo_json, run_async
from control.cli_output import as_json_option
from control.errors import PasserelleError, UsageError
from control.hub import FORMS, parse_dir, parse_hf
from control.keys import HUGGING_FACE, RUNPOD, Keys
from control.settings import Settings
from control.store import home

ABOUT_KEYS = {
    RUNPOD: "RunPod API key (console.runpod.io/user/settings)",
    HUGGING_FACE: "Hugging Face token with role write (huggingface.co/settings/tokens)",
}


@click.command()
@as_json_option
def doctor(as_json: bool) -> None:
    """Look at keys, Hub, SSH key, Claude Code and this machine, and say what to mend. Nothing is changed.

    Exit code: 0 all well, 1 a warning, 2 something is missing or broken.

    \b
    Example:
      passerelle doctor --json
    """
    from control import checkup
    from control import doctor as judged

    checks = run_async(checkup.everything())
    if as_json:
        echo_json(checks)
    else:
        click.echo("\n".join(judged.lines(checks)))
    sys.exit(judged.exit_code(checks))


@dataclass(frozen=True, slots=True)
class Asking:
    """How a missing value is got: from the operator, or not at all."""

    interactive: bool

    def text(self, question: str, given: str | None, before: str | None) -> str | None:
        """The option, else the answer, else what was set before. "-" unsets."""
        if given is None and self.interactive:
            given = click.prompt(question, default=before or "", show_default=bool(before), err=True).strip()
        if given is None:
            return before
        return None if given in ("", "-") else given

    def secret(self, question: str) -> str:
        """Never shown; empty when there is none to give."""
        if not self.interactive:
            return ""
        return str(click.prompt(question, default="", show_default=False, hide_input=True, err=True)).strip()

    def yes(self, question: str) -> bool:
        return self.interactive and click.confirm(question, default=True, err=True)


@click.command()
@click.option("--hub", metavar="URL", help=f"Where configurations are published: {FORMS}.")
@click.option("--log-mirror", metavar="URL", help="Where pods mirror their log: another store than --hub.")
@click.option("--ssh-key", metavar="FILE", help="The private key that pods let in.")
@click.option("--ssh-agent", metavar="SOCKET", help="An SSH agent that holds it.")
@click.option("--new-ssh-key", is_flag=True, help="Make one for pods alone.")
@click.option("--keep-keys", is_flag=True, help=f"Keep {RUNPOD} and {HUGGING_FACE} of this environment for later.")
@click.option("--no-input", is_flag=True, help="Ask nothing: take the options, leave the rest as it is.")
def init(
    hub: str | None,
    log_mirror: str | None,
    ssh_key: str | None,
    ssh_agent: str | None,
    new_ssh_key: bool,
    keep_keys: bool,
    no_input: bool,
) -> None:
    """Set up this machine once: keys, the Hub's stores, the SSH key. Asks for what the options do not say.

    Secrets are typed unseen or read from the environment, never given as options; "-" unsets a value.

    \b
    Examples:
      passerelle init
      passerelle init --no-input --keep-keys --hub hf://datasets/me/pods --log-mirror hf://datasets/me/pod-logs
    """
    ask = Asking(not no_input and sys.stdin.isatty())
    before = settings.load()
    for name in (RUNPOD, HUGGING_FACE):
        _keep_key(name, ask, keep_keys)
    wanted = replace(
        before,
        hub=_store(ask.text("Store for configurations (Enter for none)", hub, before.hub)),
        log_mirror=_store(ask.text("Store for pods' logs (Enter for none)", log_mirror, before.log_mirror)),
    )
    if wanted.hub is not None and wanted.hub == wanted.log_mirror:
        raise UsageError("the log needs another store than the configuration", "each line of the log would wake pods")
    wanted = _with_ssh(wanted, ask, ssh_key, ssh_agent, new_ssh_key)
    _make_stores(wanted)
    click.echo(f"written: {settings.save(wanted)}")
    click.echo("see whether it holds: passerelle doctor")


def _keep_key(name: str, ask: Asking, keep: bool) -> None:
    keys = Keys()
    where = keys.where(name)
    if where == "environment" and keep:
        click.echo(f"{name}: of the environment, now kept in the {keys.set(name, os.environ[name])}")
    elif where is not None:
        click.echo(f"{name}: found in the {where}")
    elif given := ask.secret(f"{ABOUT_KEYS[name]} (Enter for none)"):
        click.echo(f"{name}: kept in the {keys.set(name, given)}")
    else:
        click.echo(f"{name}: not set; export it, or come back")


def _store(url: str | None) -> str | None:
    if url is not None and parse_hf(url) is None and parse_dir(url) is None:
        raise UsageError(f"{url!r} is no store", f"give one like {FORMS}")
    return url


def _with_ssh(before: Settings, ask: Asking, key: str | None, agent: str | None, new: bool) -> Settings:
    from control import ssh_keys

    usual = [path for name in ssh_keys.USUAL if (path := Path.home() / ".ssh" / name).is_file()]
    agent_path = ask.text("", agent, before.ssh_agent) if agent is not None else before.ssh_agent
    if not new and key is None and before.ssh_key is None and agent_path is None and not usual:
        new = ask.yes("There is no SSH key here. Make one for pods alone?")
    if new:
        path = home() / "ssh_key"
        line = ssh_keys.make_key(path)
        click.echo(f"a new SSH key: {path}\n  pods that you create from now on let it in: {line}")
        return replace(before, ssh_key=str(path), ssh_agent=agent_path)
    suggested = before.ssh_key or (str(usual[0]) if usual else None)
    chosen = ask.text("SSH key for pods (Enter for none)", key, suggested)
    if chosen is not None and chosen != before.ssh_key:
        path = Path(chosen).expanduser().absolute()
        fault = ssh_keys.key_fault(path)
        if fault is not None and agent_path is None:
            raise UsageError(f"the SSH key {path} cannot be used: {fault}", "name another, or --ssh-agent SOCKET")
        chosen = str(path)
    return replace(before, ssh_key=chosen, ssh_agent=agent_path)


def _make_stores(wanted: Settings) -> None:
    """Private, if they are not there. A Hub that cannot be reached now is no reason to forget the rest."""
    from control.hub import open_store

    async def make(url: str) -> None:
        async with open_store(url, Keys().get(HUGGING_FACE)) as store:
            await store.make()

    for url in (wanted.hub, wanted.log_mirror):
        if url is None:
            continue
        try:
            run_async(make(url))
            click.echo(f"{url}: ready")
        except PasserelleError as error:
            click.echo(f"{url}: not made: {error.message}" + (f" ({error.remedy})" if error.remedy else ""), err=True)


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    cli.add_command(doctor)
    cli.add_command(init)
