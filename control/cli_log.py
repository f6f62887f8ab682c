"""`passerelle log`: a pod's log by whichever way answers, followed over changes of the way."""

from __future__ import annotations

import asyncio
import time

import click

from bootstrap.report import LogLine
from control.cli_link import pod_argument, with_reach
from control.errors import Unreachable
from control.reach import Answer, LogPage, Reach, Via

FOLLOW_S = 1.0
FOLLOW_COLD_S = 10.0
"""Between two looks at a log that is read from where the pod mirrors it."""


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


def register(cli: click.Group) -> None:
    """Add this verb to the command."""
    cli.add_command(log)
