"""Where each replica serves now: the pods' own reports, looked at every few seconds, for as long as the front runs."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

from bootstrap.report import Service
from bridge.report import PodReport
from control.errors import PasserelleError
from control.fleet.models import Place
from control.models import Pod, PodId, Target, Tokens
from control.observe.sources import read
from control.podlink import PodLink
from control.provider import Provider

LOOK_S = 2.0
SILENT_S = 10.0
"""Without an answer for so long, a replica is taken for gone; a bridge that is late is not."""

ASK_AGAIN_S = 15.0
"""Between two questions to a provider that does not know the pod's address."""


class Replica:
    """`place` is what was seen last."""

    def __init__(self, pod_id: PodId, provider: Provider) -> None:
        self.id = pod_id
        self.place = Place("waiting", reason="not looked at yet")
        self._provider = provider

    async def follow(self) -> None:
        """Look for ever."""
        while True:
            try:
                pod = await self._provider.get(self.id)
                tokens = await self._provider.tokens(self.id)
            except PasserelleError as error:
                self.place = Place("down", reason=error.message)
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            if pod.url is None:
                self.place = Place("waiting", reason="it has no address yet")
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            await self._watch(pod, pod.url, tokens)

    async def _watch(self, pod: Pod, url: str, tokens: Tokens) -> None:
        """Until it has been silent for so long that its address may have changed."""
        heard = time.monotonic()
        async with PodLink(Target(url, tokens.operator)) as link:
            while True:
                try:
                    self.place = place(pod, tokens, await link.report()) or self.place
                    heard = time.monotonic()
                except PasserelleError as error:
                    if time.monotonic() - heard > SILENT_S:
                        self.place = Place("down", reason=error.message)
                        return
                await asyncio.sleep(LOOK_S)


def place(pod: Pod, tokens: Tokens, report: PodReport) -> Place | None:
    """From one report: an embedded pod's engine by its port on loopback, a rented pod by its bridge.

    None where the report says nothing of the engine: a supervisor that is late once moves no conversation.
    """
    status = read(report).status
    if status is None:
        return None
    if status.engine.state != "serving":
        gone = status.engine.state in ("fatal", "stopped", "stopping")
        return Place("down" if gone else "waiting", reason=f"its engine is {status.engine.state}")
    if report.draining:
        return Place("waiting", reason="it drains")
    if pod.provider != "local":
        return Place("serving", pod.url, tokens.client)
    port = _port(status.engine)
    return Place("serving", f"http://127.0.0.1:{port}") if port else Place("waiting", reason="its engine has no port")


def _port(engine: Service) -> str | None:
    return next((value for flag, value in pairwise(engine.command) if flag == "--port"), None)
