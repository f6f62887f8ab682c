"""The polls: a pod's bridge once a second, its provider every few. Every outcome is an Update, a failure too.

The only file of observe/ with a clock and with waiting in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from bootstrap.report import Status
from bridge.report import PodReport
from control.errors import PasserelleError, Unauthorized
from control.lastseen import LastSeen
from control.ledger import Ledger, tokens_of
from control.models import PodId, PodState, Target
from control.observe import scrape
from control.observe.reduce import reduce
from control.observe.scrape import EngineMetrics, ScrapeError
from control.observe.snapshot import Snapshot
from control.observe.state import State
from control.observe.updates import PodLost, PodSeen, ReportLost, ReportSeen, Update
from control.observe.view import snapshot
from control.podlink import PodLink, PortSilent
from control.provider import Provider
from control.store import home

REPORT_EVERY_S = 1.0
POD_EVERY_S = 5.0

Publish = Callable[[Snapshot], None]
T = TypeVar("T")


@dataclass(slots=True)
class Watch:
    """A running observation of one pod; `state` is its memory."""

    provider: Provider
    pod_id: PodId
    target: Target
    state: State = field(default_factory=State)
    ledger: Ledger | None = None
    """What the pod worked while it was watched; only a watch that goes on keeps it."""
    last: LastSeen | None = None
    """The supervisor's last word, for when nothing answers any more."""

    async def run(self, publish: Publish) -> None:
        """Poll for ever; `publish` gets a snapshot after each poll of the bridge and each change of the pod."""
        self.ledger, self.last = Ledger(home(), self.pod_id), LastSeen(home(), self.pod_id)
        async with PodLink(self.target) as link, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._poll_pod(publish))
            tasks.create_task(self._poll_bridge(link, publish))

    async def _poll_pod(self, publish: Publish) -> None:
        while True:
            before = self.state.pod.state if self.state.pod else None
            self._fold(await pod_update(self.provider, self.pod_id))
            after = self.state.pod.state if self.state.pod else None
            if before != after:
                self._publish(publish)
            changing = after in (PodState.STARTING, PodState.STOPPING)
            await asyncio.sleep(self.provider.look_every_s if changing else POD_EVERY_S)

    async def _poll_bridge(self, link: PodLink, publish: Publish) -> None:
        due = time.monotonic()
        while True:
            if not self._stopped():
                self._fold(await report_update(link, self.state.log_next))
            self._publish(publish)
            due = max(due + REPORT_EVERY_S, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def look(self, seconds: float) -> Snapshot:
        """Poll for `seconds` and return the last moment: a rate needs two scrapes, silence needs a second try."""
        until = time.monotonic() + seconds
        async with PodLink(self.target) as link:
            self._fold(await pod_update(self.provider, self.pod_id))
            while True:
                if not self._stopped():
                    self._fold(await report_update(link, self.state.log_next))
                snap, self.state = snapshot(self.state, time.monotonic(), time.time())
                if self._stopped() or time.monotonic() + REPORT_EVERY_S > until:
                    return snap
                await asyncio.sleep(REPORT_EVERY_S)

    async def look_again(self, publish: Publish) -> None:
        """Ask the provider now, not at the next turn: after a stop or a start was sent."""
        self._fold(await pod_update(self.provider, self.pod_id))
        self._publish(publish)

    def _stopped(self) -> bool:
        return self.state.pod is not None and self.state.pod.state in (PodState.EXITED, PodState.TERMINATED)

    def _fold(self, update: Update) -> None:
        if self.last is not None and isinstance(update, ReportSeen):
            self.last.see(update.report.bootstrap, time.time())
        if self.ledger is not None and isinstance(update, ReportSeen):
            tokens = tokens_of(update.metrics) if update.metrics else None
            self.ledger.see(bool(update.report.turns), tokens, time.time())
        self.state = reduce(self.state, update, time.monotonic(), time.time())

    def _publish(self, publish: Publish) -> None:
        snap, self.state = snapshot(self.state, time.monotonic(), time.time())
        publish(snap)


async def pod_update(provider: Provider, pod_id: PodId) -> Update:
    """One look at the provider."""
    try:
        return PodSeen(await provider.get(pod_id))
    except PasserelleError as error:
        return PodLost(error.message)


async def report_update(link: PodLink, log_after: int) -> Update:
    """One look at the bridge."""
    try:
        report = await link.report(log_after)
    except Unauthorized as error:
        return ReportLost("unauthorized", error.message)
    except PortSilent as error:
        return ReportLost("port", error.message)
    except PasserelleError as error:
        return ReportLost("bridge", error.message)
    return read(report)


def read(report: PodReport) -> ReportSeen:
    """Decode the two parts that a report carries as they came: the supervisor's status, the engine's metrics."""
    errors: list[str] = []
    status = _part(lambda: _status(report), errors)
    metrics = _part(lambda: _metrics(report), errors)
    return ReportSeen(report, status, metrics, "; ".join(errors) or None)


def _part(get: Callable[[], T | None], errors: list[str]) -> T | None:
    try:
        return get()
    except (ScrapeError, msgspec.ValidationError) as error:
        errors.append(str(error))
        return None


def _status(report: PodReport) -> Status | None:
    return None if report.bootstrap is None else msgspec.convert(report.bootstrap, Status)


def _metrics(report: PodReport) -> EngineMetrics | None:
    return scrape.parse(report.engine.metrics) if report.engine.metrics else None
