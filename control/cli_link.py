"""The verbs that steer a running pod by whichever way leads to it, and say which they took."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from bootstrap.report import LogLine
from control.cli import echo_json, run_async
from control.ctl import Request
from control.errors import PasserelleError, Unreachable
from control.models import PodId
from control.reach import Answer, LogPage, Reach, Via, Way
from control.ways import Ways

T = TypeVar("T")

FOLLOW_S = 1.0
FOLLOW_COLD_S = 10.0
"""Between two looks at a log that is read from where the pod mirrors it."""

pod_argument = click.argument("pod", metavar="[POD]", required=False)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, with the way it took.")


def with_reach(pod: str | None, work: Callable[[Reach], Awaitable[T]]) -> T:
    """Run `work` on the ways to the pod that was named, or to the only one."""

    async def run() -> T:
        async with await open_ways(pod) as ways:
            return await work(ways.reach)

    return run_async(run())


async def open_ways(named: str | None) -> Ways:
    """The ways that this pod has, by what its provider and our settings say."""
    from control import providers, settings
    from control.hostkeys import HostKeys
    from control.hub import open_store, parse_dir
    from control.keys import HUGGING_FACE, Keys
    from control.local.store import Store
    from control.mirror import name_of
    from control.store import home

    provider, pod = await providers.find(named)
    tokens = await provider.tokens(pod.id)
    local = Store(home()) if provider.name == "local" else None
    mine = settings.load()
    kept = mine.log_mirror
    folder = parse_dir(kept) if kept else None
    log_file = local.state(pod.id) / "logs" / "pod.log" if local else folder and Path(folder) / name_of(pod.id)
    return Ways(
        pod,
        tokens.operator,
        pins=HostKeys(home()),
        identity=mine.identity(),
        socket=local.socket(pod.id) if local else None,
        log_file=log_file or None,
        store=(lambda: open_store(kept, Keys().get(HUGGING_FACE))) if kept else None,
    )


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
    """Start a new bridge on the same socket; the old one finishes its streams, so none is lost."""
    steer(pod, {"cmd": "restart", "service": "bridge"}, "the bridge of {pod} is being restarted", as_json)


@click.command("restart")
@pod_argument
@json_option
def restart_engine(pod: str | None, as_json: bool) -> None:
    """Restart the engine: it drains first, for a bounded time, and loads its model again."""
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
    """Refuse new turns for now (529, to be tried again) while the running ones finish."""
    done = "{pod} takes new turns again" if off else "{pod} takes no new turns; passerelle drain --off undoes it"
    steer(pod, {"cmd": "drain", "on": not off}, done, as_json)


@click.command()
@pod_argument
@json_option
def keep(pod: str | None, as_json: bool) -> None:
    """Cancel the stop that an idle pod has announced."""
    steer(pod, {"cmd": "keep"}, "{pod} stays; its idle time counts from now", as_json)


@click.command()
@pod_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until Ctrl-C, by whichever way answers.")
@click.option("--lines", "-n", default=200, show_default=True, type=click.IntRange(1, 500))
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line of the log.")
def log(pod: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """The newest lines of a pod's log: from the pod, or from where it mirrors them when it does not answer.

    \b
    Example:
      passerelle log --follow
    """
    printed = Printed(as_json)

    async def work(reach: Reach) -> None:
        page = await reach.log(None, lines)
        printed.page(page)
        while follow:
            await asyncio.sleep(FOLLOW_COLD_S if page.age_s else FOLLOW_S)
            page = await _next(reach, page, printed)

    with_reach(pod, work)


class Printed:
    """What a log's reader has seen: lines on stdout, the way when it changes on stderr."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._way = ""
        self._last_at = 0.0

    def page(self, answer: Answer[LogPage]) -> None:
        self.note(answer.how() or (answer.via.value if self._way else ""), answer.via)
        for line in answer.value.lines:
            self._last_at = max(self._last_at, line.at)
            self._print(line, answer.via)

    def unseen(self, answer: Answer[LogPage]) -> Answer[LogPage]:
        """After a change of ways, whose numbers differ: the lines that are newer than the last one printed."""
        lines = tuple(line for line in answer.value.lines if line.at > self._last_at)
        return Answer(LogPage(lines, answer.value.next), answer.via, answer.age_s, answer.passed)

    def note(self, words: str, key: str) -> None:
        if words and self._way != key:
            click.echo(f"-- {words}", err=True)
        self._way = key

    def _print(self, line: LogLine, via: Via) -> None:
        if self._as_json:
            import msgspec

            click.echo(msgspec.json.encode({"via": via.value} | msgspec.to_builtins(line)))
            return
        at = time.strftime("%H:%M:%S", time.localtime(line.at))
        click.echo(f"{at} {line.source:9} {line.level:7} {line.text}")


async def _next(reach: Reach, before: Answer[LogPage], printed: Printed) -> Answer[LogPage]:
    """The next page. A pod that cannot be reached at all is said once, and looked for again."""
    try:
        page = await reach.log(before.value.next)
        if (page.via in (Via.HUB, Via.FILE)) != (before.via in (Via.HUB, Via.FILE)):
            page = printed.unseen(await reach.log(None))
    except Unreachable as error:
        printed.note(error.message, "nowhere")
        return before
    printed.page(page)
    return page


@click.command()
@pod_argument
@click.option("--json", "as_json", is_flag=True)
def link(pod: str | None, as_json: bool) -> None:
    """Try every way to a pod, and say which lead there.

    Exit code: 0 when the first one does, 1 when another does, 3 when none does.
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
        said = await way.ask({"cmd": "tail", "after": None, "limit": 1})
    except PasserelleError as error:
        return {"via": way.via.value, "ok": False, "says": error.message}
    took = time.monotonic() - began
    says = f"written {said.age_s:.0f} s ago" if said.age_s else f"answers in {took * 1000:.0f} ms"
    return {"via": way.via.value, "ok": True, "says": says}


@click.command("ssh-key")
@click.argument("pod", metavar="POD")
@click.option("--forget", is_flag=True, help="Forget it: the next contact pins the key that it then finds.")
def ssh_key(pod: str, forget: bool) -> None:
    """The SSH host key that is pinned for a pod."""
    from control.hostkeys import HostKeys
    from control.ssh import fingerprint
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
    made = click.Group(name, help=about)
    cli.add_command(made)
    return made


def register(cli: click.Group) -> None:
    """Add these verbs to the command."""
    group_of(cli, "bridge", "The bridge in the pod.").add_command(restart_bridge)
    group_of(cli, "engine", "The engine in the pod.").add_command(restart_engine)
    for verb in (swap, drain, keep, log, link, ssh_key):
        cli.add_command(verb)
