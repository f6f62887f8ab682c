"""One operator's hold on one pod: watch it, and act on it. What the console and the demo are given.

The HTTP client and the metrics parser take 0.2 s to import, so they are imported when the first poll needs them: the
screen is drawn before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from bootstrap.report import Status
from control.errors import Unauthorized, Unreachable
from control.models import Pod, Target
from control.observe.snapshot import Snapshot
from control.provider import Provider

if TYPE_CHECKING:
    from control.observe.sources import Watch

Publish = Callable[[Snapshot], None]


class PodSession:
    """Every method but `run` raises PasserelleError; `run` shows what it cannot reach as a Snapshot."""

    def __init__(self, provider: Provider, pod: Pod, target: Target) -> None:
        self.pod_id = pod.id
        self._provider = provider
        self._pod = pod
        self._target = target
        self._watching: tuple[Watch, Publish] | None = None

    @classmethod
    async def open(cls, provider: Provider, pod: Pod) -> PodSession:
        """The pod as it was found, and our token for it."""
        tokens = await provider.tokens(pod.id)
        return cls(provider, pod, Target(pod.url or "", tokens.operator))

    async def run(self, publish: Publish) -> None:
        """Poll for ever and publish each snapshot; ends only by cancellation."""
        from control.observe.sources import Watch
        from control.observe.state import State

        watch = Watch(self._provider, self.pod_id, self._target, State(pod=self._pod))
        self._watching = watch, publish
        await watch.run(publish)

    async def last(self, seconds: float) -> Snapshot:
        """Watch for `seconds`; the last snapshot of them."""
        seen: list[Snapshot] = []
        try:
            async with asyncio.timeout(seconds):
                await self.run(lambda snap: seen.__setitem__(slice(None), [snap]))
        except TimeoutError:
            if seen:
                return seen[-1]
        raise Unreachable(f"pod {self.pod_id} could not be looked at once within {seconds:g} s")

    async def supervisor_status(self) -> Status:
        """What the pod's supervisor says now. Raises Unreachable when the bridge or the supervisor does not answer."""
        from control.observe.sources import read
        from control.podlink import PodLink

        async with PodLink(self._target) as link:
            seen = read(await link.report())
        if seen.status is None:
            raise Unreachable(f"the supervisor of {self.pod_id} does not answer: {seen.report.bootstrap_error}")
        return seen.status

    async def stop(self) -> None:
        """Ask the provider for the end of compute; whether it ended is seen in the snapshots."""
        await self._provider.stop(self.pod_id)
        await self._look_again()

    async def start(self) -> None:
        await self._provider.start(self.pod_id)
        await self._look_again()

    async def restart_bridge(self) -> None:
        """A new bridge takes over the socket; the old one finishes its streams."""
        await self.restart("bridge")

    async def restart(self, service: str) -> None:
        """ "bridge" (no stream is lost) or "engine" (it drains first), by whichever way to the pod answers."""
        from control.ways import open_ways

        async with await open_ways(self._provider, await self._found()) as ways:
            await ways.reach.ask({"cmd": "restart", "service": service})

    async def _found(self) -> Pod:
        """The pod as it is; where its provider does not say, as it was found: the ways to it may well lead there."""
        try:
            return await self._provider.get(self.pod_id)
        except (Unreachable, Unauthorized):
            return self._pod

    async def _look_again(self) -> None:
        if self._watching is not None:
            watch, publish = self._watching
            await watch.look_again(publish)
