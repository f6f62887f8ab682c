"""The verbs that steer a running pod by whichever way leads to it, and say which they took."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import click

from control.cli import echo_json, run_async
from control.cli_help import Verbs
from control.cli_output import as_json_option
from control.ctl import Request
from control.errors import PasserelleError, Unreachable
from control.models import Pod, PodId
from control.providers import find_even_unheard
from control.reach import Answer, Reach, Via, Way
from control.ways import open_ways

T = TypeVar("T")

TAIL: Request = {"cmd": "tail", "after": None, "limit": 1}
"""What a log can be asked; the other ways are asked for the status, which every one of them has."""

pod_argument = click.argument("pod", metavar="[POD]", required=False)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, with the way it took.")


def with_reach(pod: str | None, work: Callable[[Reach], Awaitable[T]]) -> T:
    """Run `work` on the ways to the pod that was named, or to the only one."""

    async def run() -> T:
        async with await open_ways(*await find_even_unheard(pod)) as ways:
            return await work(ways.reach)

    return run_async(run())


def steer(pod: str | None, request: Request, done: str, as_json: bool) -> None:
    """Send one command and say what came of it. `done` is a sentence; {pod} in it is the pod's id."""

    async def work(reach: Reach) -> tuple[PodId, Answer[dict[str, object]]]:
        return reach.pod_id, await reach.ask(request)

    pod_id, answer = with_reach(pod, work)
    if as_json:
        echo_json({"pod": pod_id, "request": request, "answer": answer.value, **way_of(answer)})
        return
    how = answer.how()
    click.echo(done.format(pod=pod_id) + (f" ({how})" if how else ""))


def way_of(answer: Answer[T]) -> dict[str, object]:
    """Which way an answer came, for --json."""
    return {
        "via": answer.via.value,
        "age_s": answer.age_s,
        "passed": [{"via": passed.via.value, "why": passed.why} for passed in answer.passed],
    }


@click.command("restart")
@pod_argument
@json_option
def restart_bridge(pod: str | None, as_json: bool) -> None:
    """Start a new bridge on the same socket; the old one finishes its streams, so none is lost.

    \b
    Example:
      passerelle bridge restart
    """
    steer(pod, {"cmd": "restart", "service": "bridge"}, "the bridge of {pod} is being restarted", as_json)


@click.command("restart")
@pod_argument
@json_option
def restart_engine(pod: str | None, as_json: bool) -> None:
    """Restart the engine: it drains first, for a bounded time, and loads its model again.

    \b
    Example:
      passerelle engine restart
    """
    steer(pod, {"cmd": "restart", "service": "engine"}, "the engine of {pod} is being restarted", as_json)


@click.command()
@click.argument("model", metavar="KEY")
@pod_argument
@json_option
def swap(model: str, pod: str | None, as_json: bool) -> None:
    """Serve another model of the pod's configuration; requests in flight finish, new ones wait.

    \b
    Example:
      passerelle swap qwen3-coder
    """
    steer(pod, {"cmd": "swap", "model": model}, f"{{pod}} changes to {model}; see it: passerelle status", as_json)


@click.command()
@pod_argument
@click.option("--off", is_flag=True, help="Take new turns again.")
@json_option
def drain(pod: str | None, off: bool, as_json: bool) -> None:
    """Refuse new turns for now, while the running ones finish.

    Clients get 529, and try again by themselves.

    \b
    Examples:
      passerelle drain
      passerelle drain --off
    """
    done = "{pod} takes new turns again" if off else "{pod} takes no new turns; passerelle drain --off undoes it"
    steer(pod, {"cmd": "drain", "on": not off}, done, as_json)


@click.command()
@pod_argument
@json_option
def keep(pod: str | None, as_json: bool) -> None:
    """Cancel the stop that an idle pod has announced.

    \b
    Example:
      passerelle keep
    """
    steer(pod, {"cmd": "keep"}, "{pod} stays; its idle time counts from now", as_json)


@click.command("apply")
@pod_argument
@json_option
def apply_config(pod: str | None, as_json: bool) -> None:
    """Have the pod look at its store now, and say what it did, or why it took nothing. It looks by itself every 5 s.

    An engine that was given up is started again, too.

    \b
    Example:
      passerelle config apply
    """
    steer(pod, {"cmd": "apply"}, "{pod} has looked at its store; see what is in force: passerelle boot", as_json)


@click.command()
@pod_argument
@json_option
def desktop(pod: str | None, as_json: bool) -> None:
    """Start the pod's desktop: noVNC on port 6080, which is reached through SSH.

    \b
    Example:
      passerelle desktop k3v9x0q2ab
    """

    async def work() -> tuple[Pod, Answer[dict[str, object]]]:
        provider, found = await find_even_unheard(pod)
        async with await open_ways(provider, found) as ways:
            return found, await ways.reach.ask({"cmd": "desktop"})

    found, answer = run_async(work())
    if as_json:
        echo_json({"pod": found.id, "answer": answer.value, **way_of(answer)})
        return
    click.echo(f"the desktop of {found.id} starts; its log says when it is there: passerelle log {found.id}")
    if found.ssh is not None:
        login = f"{found.ssh.user}@{found.ssh.host} -p {found.ssh.port}"
        click.echo(f"  ssh -N -L 6080:127.0.0.1:6080 {login}     then http://127.0.0.1:6080")
        click.echo(f"  ssh {login} cat /workspace/passerelle/desktop.password")


@click.command()
@pod_argument
@json_option
def boot(pod: str | None, as_json: bool) -> None:
    """How far a pod's start is: phases with times, what the engine found, and the fault that stops it.

    Exit code: 0 it serves, 1 it is on the way or was only seen before, 2 it will not come up by itself, 3 nothing is
    known of it.

    \b
    Example:
      passerelle boot
    """
    from control import boot as told

    found = with_reach(pod, lambda reach: reach.status())
    if as_json:
        echo_json({"status": replace(found.value, log=()), **way_of(found)})
    else:
        if how := found.how():
            click.echo(f"-- {how}")
        click.echo("\n".join(told.lines(found.value)))
    sys.exit(max(told.exit_code(found.value), 1 if found.via is Via.MEMORY else 0))


@click.command()
@pod_argument
@as_json_option
def link(pod: str | None, as_json: bool) -> None:
    """Try every way to a pod, and say which lead there.

    Exit code: 0 when the first one does, 1 when another does, 3 when none does.

    \b
    Example:
      passerelle link k3v9x0q2ab
    """

    async def work(reach: Reach) -> list[dict[str, object]]:
        return [await _tried(way) for way in reach.ways]

    rows = with_reach(pod, work)
    if as_json:
        echo_json(rows)
    else:
        for row in rows:
            click.echo(f"{'ok  ' if row['ok'] else 'none'} {row['via']:<7} {row['says']}")
    good = [bool(row["ok"]) for row in rows]
    sys.exit(0 if good[:1] == [True] else 1 if any(good) else Unreachable.exit_code)


async def _tried(way: Way) -> dict[str, object]:
    began = time.monotonic()
    try:
        said = await way.ask(TAIL if way.via in (Via.HUB, Via.FILE) else {"cmd": "status"})
    except PasserelleError as error:
        return {"via": way.via.value, "ok": False, "says": error.message}
    took = time.monotonic() - began
    says = f"written {said.age_s:.0f} s ago" if said.age_s else f"answers in {took * 1000:.0f} ms"
    return {"via": way.via.value, "ok": True, "says": says}


@click.command("ssh-key")
@click.argument("pod", metavar="POD")
@click.option("--forget", is_flag=True, help="Forget it: the next contact pins the key that it then finds.")
def ssh_key(pod: str, forget: bool) -> None:
    """The SSH host key that is pinned for a pod.

    \b
    Examples:
      passerelle ssh-key k3v9x0q2ab
      passerelle ssh-key k3v9x0q2ab --forget      after a stop and start that re-made its disk
    """
    from control.hostkeys import HostKeys
    from control.ssh_keys import fingerprint
    from control.store import home

    pins = HostKeys(home())
    if forget:
        was = pins.forget(PodId(pod))
        click.echo(f"the host key of {pod} is forgotten" if was else f"no host key is pinned for {pod}")
        return
    pinned = pins.get(PodId(pod))
    click.echo(f"no host key is pinned for {pod}" if pinned is None else fingerprint(pinned))


def group_of(cli: click.Group, name: str, about: str) -> click.Group:
    """The group of that name; made when it is not there. Several files add verbs to one group."""
    found = cli.commands.get(name)
    if isinstance(found, click.Group):
        return found
    made = Verbs(name, help=about)
    cli.add_command(made)
    return made


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    group_of(cli, "bridge", "The bridge in the pod.").add_command(restart_bridge)
    group_of(cli, "engine", "The engine in the pod.\n\nExample: passerelle engine restart").add_command(restart_engine)
    group_of(cli, "config", "The pod's configuration.").add_command(apply_config)
    for verb in (swap, drain, keep, desktop, boot, link, ssh_key):
        cli.add_command(verb)
