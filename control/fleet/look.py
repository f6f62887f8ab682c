"""One look at a whole fleet: each replica watched for the same few seconds, and the front asked."""

from __future__ import annotations

import asyncio
import time

from control.errors import PasserelleError
from control.fleet import life, view
from control.fleet.models import Fleet
from control.fleet.store import Fleets
from control.fleet.view import FleetSnapshot
from control.models import PodId, Target
from control.observe.snapshot import Snapshot
from control.observe.sources import Watch
from control.observe.state import State
from control.observe.view import snapshot
from control.providers import provider_of


async def look(fleets: Fleets, fleet: Fleet, seconds: float) -> FleetSnapshot:
    """Never raises for what does not answer: that is a row of its own."""
    seen = await asyncio.gather(*(_replica(one, seconds) for one in fleet.replicas))
    front, problem = None, ""
    try:
        front = await life.front_status(fleets, fleet.name)
    except PasserelleError as error:
        problem = error.message
    return view.snapshot(time.time(), fleet, front, problem, seen)


async def _replica(pod_id: PodId, seconds: float) -> Snapshot:
    try:
        provider = provider_of(pod_id)
        pod, tokens = await provider.get(pod_id), await provider.tokens(pod_id)
        return await Watch(provider, pod_id, Target(pod.url or "", tokens.operator)).look(seconds)
    except PasserelleError as error:
        unknown = State(pod_error=error.message)
        return snapshot(unknown, time.monotonic(), time.time())[0]
