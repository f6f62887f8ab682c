"""The demo: an embedded pod and six agents at work on it. Owns both processes for as long as it runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from control.local.provider import LocalProvider, Options
from control.models import Pod, Tokens
from control.observe.session import PodSession
from control.observe.snapshot import Snapshot

END_WITHIN_S = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """What the agents do; tokens in the engine's count."""

    agents: int = 6
    first: int = 60_000
    limit: int = 150_000
    result: tuple[int, int] = (1_500, 7_000)
    max_tokens: int = 1_024
    model: str = "qwen3-coder"


@contextmanager
def agents_at_work(log: Path, url: str, token: str, work: Work) -> Iterator[None]:
    """Agents run as a process of their own while the block does, and end with it. Their turns go to `log`."""
    argv = [sys.executable, "-P", "-m", "control.bench.agents", "--url", url, "--model", work.model]
    argv += ["--agents", str(work.agents), "--first", str(work.first), "--limit", str(work.limit)]
    argv += ["--result", *map(str, work.result), "--max-tokens", str(work.max_tokens)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=os.environ | {"PASSERELLE_CLIENT_TOKEN": token},
            start_new_session=True,
        )
    try:
        yield
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def with_agents(provider: LocalProvider, options: Options, work: Work, then: Callable[[PodSession], T]) -> T:
    """A new pod with agents at work on it, and `then` in the foreground.

    The pod is left as `then` leaves it; when anything fails, it is removed: a pod that nobody was told of costs money.
    """
    pod, session, tokens = asyncio.run(_begin(provider, options))
    try:
        with agents_at_work(provider.logs(pod.id) / "agents.log", pod.url or "", tokens.client, work):
            return then(session)
    except BaseException:
        asyncio.run(provider.terminate(pod.id))
        raise


async def _begin(provider: LocalProvider, options: Options) -> tuple[Pod, PodSession, Tokens]:
    pod = await provider.create(options)
    return pod, await PodSession.open(provider, pod), await provider.tokens(pod.id)


def headless(provider: LocalProvider, options: Options, work: Work, seconds: float) -> Snapshot:
    """Run the demo without a screen for `seconds`, return its last snapshot, and leave nothing running."""

    def watch(session: PodSession) -> Snapshot:
        try:
            return asyncio.run(session.last(seconds))
        finally:
            asyncio.run(provider.terminate(session.pod_id))

    return with_agents(provider, options, work, watch)
