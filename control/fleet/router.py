"""vllm-router's command line: the policy that keeps a conversation where its prefix is, and limits that fit. Pure.

Facts of vllm-router 0.1.17, measured (docs/scale.md): `sticky_least_loaded` places a new x-session-id where fewest are,
and keeps it there until that replica is unhealthy or its circuit is open. `cache_aware` sends each prompt to every
replica once more, to be rendered, and puts all that share a system prompt on one. `consistent_hash` ignores load. It
reads a body into types and writes it anew: what they do not know of a message or a tool is gone. Headers stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from control.fleet.conversations import FORGOTTEN_S

SESSION = "x-session-id"
POLICY = "sticky_least_loaded"

DAY_S = 86_400
"""Its request timeout counts the whole answer, and a long turn is no failure."""

FLAGS = {
    "--policy": POLICY,
    "--request-timeout-secs": DAY_S,
    "--worker-startup-check-interval": 1,
    # It is told which replicas serve; one that has gone a moment ago is noticed by its refusals: three of them, which
    # are retried, open its circuit, and the next try goes elsewhere.
    "--cb-failure-threshold": 3,
    "--cb-timeout-duration-secs": 10,
    "--cb-window-duration-secs": 30,
    "--retry-max-retries": 5,
    "--retry-initial-backoff-ms": 50,
    "--retry-max-backoff-ms": 500,
    "--health-check-interval-secs": 2,
    "--health-check-timeout-secs": 5,
    "--health-failure-threshold": 2,
    "--health-success-threshold": 1,
    "--log-level": "warning",
}

VARIABLES = {"VLLM_ROUTER_SLL_SESSION_EXPIRATION_IN_S": f"{FORGOTTEN_S:.0f}"}


@dataclass(frozen=True, slots=True)
class Ports:
    """On loopback, all three."""

    router: int
    metrics: int
    tunnel: int

    def door(self, replica: str) -> str:
        """The URL by which the router knows a replica."""
        return f"http://127.0.0.1:{self.tunnel}{door(replica)}"


def door(replica: str) -> str:
    """The path under which the tunnel leads to a replica."""
    return f"/replica/{replica}"


def stub(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the router needs of a request: enough to be one, and whether its answer is a stream."""
    prompt: dict[str, Any] = {"messages": []} if "messages" in request else {"prompt": ""}
    return {"model": str(request.get("model", "")), **prompt, "stream": request.get("stream") is True}


def members(answer: bytes) -> dict[str, bool] | None:
    """URL -> healthy, of its GET /workers; None where that is no such answer."""
    try:
        told = msgspec.json.decode(answer, type=_Workers)
    except msgspec.DecodeError:
        return None
    return {one.url: one.is_healthy for one in told.workers}


class _Worker(msgspec.Struct):
    url: str
    is_healthy: bool


class _Workers(msgspec.Struct):
    workers: list[_Worker]


def argv(program: str, ports: Ports, replicas: Iterable[str]) -> tuple[str, ...]:
    """The whole command; it holds no secret. Without a replica it ends at once; others are added while it runs."""
    urls = [ports.door(one) for one in replicas]
    where = ("--host", "127.0.0.1", "--port", str(ports.router))
    metrics = ("--prometheus-host", "127.0.0.1", "--prometheus-port", str(ports.metrics))
    flags = (str(word) for pair in FLAGS.items() for word in pair)
    return (program, *where, *metrics, *flags, "--worker-urls", *urls)
