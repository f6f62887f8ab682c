"""PID 1 at work: owns the bridge's listening socket, the signals and the state folder, and ends everything in time."""

import asyncio
import contextlib
import os
import signal
import socket
import time

from bootstrap import ctlsocket, spec
from bootstrap.answers import Answers
from bootstrap.command import TOKENS
from bootstrap.errors import Problem, Usage, failing_as
from bootstrap.keeper import Shop
from bootstrap.launches import Settings
from bootstrap.logtap import Journal
from bootstrap.pod import Pod
from bootstrap.processes import Children
from bootstrap.redact import Redactor, secret_values
from bootstrap.report import VERSION

# Every process is gone within 10 s of a stop. First each group in its turn has so long to end: the bridge, so that its
# streams may; the engines; the hub worker, with a last word. Then what descends from us and still lives gets SIGKILL.
STOPS_S = (2.5, 3.0, 2.0)
SWEEP_S = 1.5


def run(settings: Settings) -> int:
    """Serve until a signal or `stop-pod`; the exit code. Errors: Problem, before anything was started."""
    with listen(settings.host, settings.port) as listener:
        if settings.config:
            with failing_as(f"cannot read the config {settings.config}", Usage):
                spec.load(settings.config.read_bytes().decode(), settings.environ)
        tokens = [settings.environ.get(name, "") for name in TOKENS]
        if not all(tokens):
            raise Usage(f"{' and '.join(TOKENS)} must be set: nobody may use a pod without one")
        ctlsocket.refuse_if_answered(settings.socket)
        with failing_as(f"cannot use {settings.state} as the state folder"):
            settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            redactor = Redactor((*tokens, *secret_values(settings.environ)))
            journal = Journal(settings.state / "logs", redactor, time.time)
        with contextlib.closing(journal):
            asyncio.run(serve(settings, listener, journal))
    return 0


class _Ended(Exception):
    """Raised to end every task of the pod."""


async def serve(settings: Settings, listener: socket.socket, journal: Journal) -> None:
    """Until a signal or `stop-pod`. Errors: Problem, before anything was started."""
    children = Children()
    try:
        async with asyncio.TaskGroup() as tasks:
            pod = Pod(settings, Shop(children, journal, tasks), listener)
            answers = Answers(pod)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, pod.end)
            async with ctlsocket.serving(settings.socket, answers.handle, answers.watch):
                port = listener.getsockname()[1]
                journal.say("info", f"bootstrap {VERSION}, pid {os.getpid()}, bridge on port {port}")
                pod.begin()
                tasks.create_task(pod.live_on())
                tasks.create_task(answers.watch_host())
                await pod.stop.wait()
                journal.say("info", "stopping")
                for keepers, limit_s in zip(pod.groups(), STOPS_S, strict=True):
                    await pod.halt(keepers, limit_s)
            raise _Ended
    except* _Ended:
        pass
    except* Problem as problems:
        raise problems.exceptions[0] from None
    finally:
        left = await children.sweep(SWEEP_S)
        how = f"still alive: {sorted(left)}" if left else "nothing is left"
        journal.say("error" if left else "info", f"bootstrap ends; {how}")


def listen(address: str, port: int) -> socket.socket:
    """The bridge's listening socket; create_server sets SO_REUSEADDR, for a restart within TIME_WAIT."""
    if not 0 <= port <= 65_535:
        raise Usage(f"--port {port} is not between 0 and 65535")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with failing_as(f"cannot listen on {address} port {port} (give another --port)"):
        return socket.create_server((address, port), family=family, backlog=1024)
