"""vllm-router's command line: the policy that keeps a conversation where its prefix is, and limits that fit. Pure.

Facts of vllm-router 0.1.17, measured (docs/scale.md): `sticky_least_loaded` places a new x-session-id where fewest are,
and keeps it there until that replica is unhealthy or its circuit is open. `cache_aware` sends each prompt to every
replica once more, to be rendered, and puts all that share a system prompt on one. `consistent_hash` ignores load.
"""

from __future__ import annotations

from dataclasses import dataclass

from control.fleet.conversations import FORGOTTEN_S

SESSION = "x-session-id"
POLICY = "sticky_least_loaded"

DAY_S = 86_400
"""Its request timeout counts the whole answer, and a long turn is no failure."""

FLAGS = {
    "--policy": POLICY,
    "--request-timeout-secs": DAY_S,
    # It ends when no replica is healthy by then; rented ones may take long to start.
    "--worker-startup-timeout-secs": DAY_S,
    "--worker-startup-check-interval": 1,
    # A replica that is gone is noticed by its refusals: three of them, which are retried elsewhere, open its circuit.
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


def door(replica: str) -> str:
    """The path under which the tunnel leads to a replica."""
    return f"/replica/{replica}"


def argv(program: str, ports: Ports, replicas: tuple[str, ...]) -> tuple[str, ...]:
    """The whole command; it holds no secret."""
    urls = [f"http://127.0.0.1:{ports.tunnel}{door(one)}" for one in replicas]
    where = ("--host", "127.0.0.1", "--port", str(ports.router))
    metrics = ("--prometheus-host", "127.0.0.1", "--prometheus-port", str(ports.metrics))
    flags = (str(word) for pair in FLAGS.items() for word in pair)
    return (program, *where, *metrics, *flags, "--worker-urls", *urls)
