"""`python -P -m control.fleet.front NAME`: the process that is a fleet's front, until SIGTERM.

It keeps a bridge and a router running, and the tunnel between them open. Both programs die with it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx

from control.errors import PasserelleError, Refused
from control.fleet import router
from control.fleet.models import Fleet, FrontStatus
from control.fleet.programs import Program
from control.fleet.replicas import Replica
from control.fleet.router import Ports
from control.fleet.store import Fleets, Front
from control.fleet.tunnel import HEAD_MOST, Tunnel, inside
from control.local import processes
from control.models import PodId, Tokens
from control.providers import provider_of
from control.store import home

END_S = 3.0
ASK_S = 2.0
TELL_S = 0.5

Started = tuple[tuple[str, ...], dict[str, str], tuple[int, ...]]


class FrontOf:
    """A fleet's front while it runs."""

    def __init__(self, fleets: Fleets, fleet: Fleet, tokens: Tokens, listener: socket.socket, program: str) -> None:
        self._fleets, self._fleet, self._tokens, self._listener = fleets, fleet, tokens, listener
        self._router_program = program
        self._secret = secrets.token_urlsafe(24)
        self._began = time.monotonic()
        self._replicas = [Replica(one, provider_of(one)) for one in fleet.replicas]
        self._tunnel = Tunnel(self._replicas, Ports(0, 0, 0), self._secret, self.status)
        folder = fleets.folder(fleet.name)
        self._bridge = Program("bridge", folder / "bridge.log", self._start_bridge, lambda: True)
        self._router = Program("router", folder / "router.log", self._start_router, lambda: bool(self._serving()))
        self._router_answers = False

    def status(self) -> FrontStatus:
        now = time.monotonic()
        return FrontStatus(
            pid=os.getpid(),
            uptime_s=now - self._began,
            programs=(self._bridge.status(), self._router.status()),
            replicas=tuple(one.status(now) for one in self._tunnel.doors.values()),
            router_answers=self._router_answers,
        )

    async def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        server = await asyncio.start_server(self._tunnel.serve, "127.0.0.1", 0, limit=HEAD_MOST)
        port = server.sockets[0].getsockname()[1]
        self._tunnel.ports = Ports(0, 0, port)
        mark = processes.mark(os.getpid())
        if mark is not None:
            self._fleets.save_front(self._fleet.name, Front(mark, port, self._secret))
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(one.follow()) for one in self._replicas]
            work += [group.create_task(one.keep()) for one in (self._router, self._bridge)]
            work.append(group.create_task(self._tell_router()))
            await told.wait()
            for task in work:
                task.cancel()
        # A bridge drains at the first SIGTERM, and ends each stream in order at the second.
        await self._bridge.end(2, END_S)
        await self._router.end(1, END_S)
        server.close()

    async def _tell_router(self) -> None:
        """Which replicas serve, whenever that changes: it would place conversations on one that does not yet."""
        async with httpx.AsyncClient(timeout=ASK_S, trust_env=False, verify=False) as client:
            while True:
                known = None
                with suppress(httpx.HTTPError):
                    known = await self._tell(client, f"http://127.0.0.1:{self._tunnel.ports.router}")
                self._router_answers = known is not None
                for one in self._tunnel.doors.values():
                    one.routed = (known or {}).get(self._tunnel.ports.door(one.replica.id), False)
                await asyncio.sleep(TELL_S)

    async def _tell(self, client: httpx.AsyncClient, url: str) -> dict[str, bool] | None:
        known = router.members((await client.get(f"{url}/workers")).content)
        if known is not None:
            serving = {self._tunnel.ports.door(one) for one in self._serving()}
            for verb, urls in (("add_worker", serving - known.keys()), ("remove_worker", known.keys() - serving)):
                for one in urls:
                    await client.post(f"{url}/{verb}", params={"url": one})
        return known

    def _serving(self) -> list[PodId]:
        return [one.id for one in self._replicas if one.place.state == "serving"]

    def _start_router(self) -> Started:
        ports = Ports(processes.free_port(), processes.free_port(), self._tunnel.ports.tunnel)
        self._tunnel.ports = ports
        argv = router.argv(self._router_program, ports, self._serving())
        return argv, dict(os.environ) | router.VARIABLES, ()

    def _start_bridge(self) -> Started:
        upstream = f"http://127.0.0.1:{self._tunnel.ports.tunnel}{inside(self._secret)}"
        env = os.environ | {
            "PASSERELLE_ENGINE_URL": upstream,  # with its secret, so not on the command line
            "PASSERELLE_LISTEN_FD": str(self._listener.fileno()),
            "PASSERELLE_CLIENT_TOKEN": self._tokens.client,
            "PASSERELLE_OPERATOR_TOKEN": self._tokens.operator,
            "PASSERELLE_MAX_STREAMS": os.environ.get("PASSERELLE_MAX_STREAMS", "512"),
        }
        return (sys.executable, "-P", "-m", "bridge"), env, (self._listener.fileno(),)


def router_program() -> str:
    """vllm-router of this environment, or on PATH. Raises Refused."""
    beside = Path(sys.executable).with_name("vllm-router")
    found = str(beside) if beside.is_file() else shutil.which("vllm-router")
    if found is None:
        raise Refused("there is no vllm-router here", "pip install 'passerelle[fleet]' (Linux on x86-64)")
    return found


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is there: every token passes here twice."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def main() -> int:
    """Exit code 0 after a signal, else the error's."""
    try:
        fleets = Fleets(home())
        fleet = fleets.load(sys.argv[1])
        tokens, program = fleets.tokens(fleet.name), router_program()
        family = socket.AF_INET6 if ":" in fleet.host else socket.AF_INET
        with (
            socket.create_server((fleet.host, fleet.port), family=family, backlog=2048) as listener,
            asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ):
            runner.run(FrontOf(fleets, fleet, tokens, listener, program).run())
    except PasserelleError as error:
        sys.stderr.write(f"{error.message}\n  {error.remedy}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"the front cannot listen: {error}\n")
        return 2
    fleets.forget_front(fleet.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
