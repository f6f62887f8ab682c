"""PID 1 at work: wires sockets, processes, probes and clock to the two machines. An edge; decides nothing itself.

Every process of the pod is gone within STOP_LIMIT_S of a stop: the bridge first, so that its streams may end, then the
engine, then by SIGKILL whatever descends from us and still lives.
"""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bootstrap import ctlsocket, host, report, spec
from bootstrap.command import TOKENS, bridge_env, engine_argv, engine_env
from bootstrap.errors import Problem, Usage, failing_as
from bootstrap.logtap import Journal
from bootstrap.machine import BRIDGE, ENGINE, RestartRequested, StopRequested, Tick
from bootstrap.processes import Children, Keeper, Launch
from bootstrap.redact import Redactor, secret_values

TICK_S = 0.25
BRIDGE_STOP_S = 3.0
ENGINE_STOP_S = 4.0
STOP_LIMIT_S = 10.0
_SWEEP_S = 1.5


@dataclass(frozen=True, slots=True)
class Settings:
    config: Path
    state: Path
    socket: Path
    host: str
    port: int
    engine_port: int  # 0: take a free one
    vllm: tuple[str, ...]
    environ: dict[str, str] = field(repr=False)
    bridge: tuple[str, ...] = (sys.executable, "-P", "-m", "bridge")


def run(settings: Settings) -> int:
    """Serve until a signal or `stop-pod`; the exit code. Errors: Problem, before anything was started."""
    with listen(settings.host, settings.port) as listener:
        wanted = read_config(settings.config)
        tokens = [settings.environ.get(name, "") for name in TOKENS]
        if not all(tokens):
            raise Usage(f"{' and '.join(TOKENS)} must be set: nobody may use a pod without one")
        redactor = Redactor((*tokens, *secret_values(settings.environ), *secret_values(dict(wanted.serve.env))))
        ctlsocket.refuse_if_answered(settings.socket)
        with failing_as(f"cannot use {settings.state} as the state folder"):
            settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            journal = Journal(settings.state / "logs", redactor, time.time)
        with contextlib.closing(journal):
            asyncio.run(serve(settings, wanted, listener, journal))
    return 0


async def serve(settings: Settings, wanted: spec.PodSpec, listener: socket.socket, journal: Journal) -> None:
    """Until a signal or `stop-pod`. Errors: Problem, before anything was started."""
    loop, children = asyncio.get_running_loop(), Children()
    pod = Pod(settings, wanted, listener, journal, children)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, pod.stop.set)
    try:
        async with ctlsocket.serving(settings.socket, pod.handle), asyncio.TaskGroup() as tasks:
            pod.start()
            work = (pod.tick(), pod.watch_host(), pod.engine.probe(), pod.bridge.probe())
            background = [tasks.create_task(each) for each in work]
            await pod.stop.wait()
            await pod.wind_down()
            for task in background:
                task.cancel()
    finally:
        left = await children.sweep(_SWEEP_S)
        how = f"still alive: {sorted(left)}" if left else "nothing is left"
        journal.say("error" if left else "info", f"bootstrap ends; {how}")


def listen(address: str, port: int) -> socket.socket:
    """The bridge's listening socket; create_server sets SO_REUSEADDR, for a restart within TIME_WAIT."""
    if not 0 <= port <= 65_535:
        raise Usage(f"--port {port} is not between 0 and 65535")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with failing_as(f"cannot listen on {address} port {port} (give another --port)"):
        return socket.create_server((address, port), family=family, backlog=1024)


def read_config(path: Path) -> spec.PodSpec:
    with failing_as(f"cannot read the config {path}", Usage):
        text = path.read_bytes().decode()
    return spec.parse(text)


def free_port() -> int:
    """On loopback, below Linux's ephemeral range (32768 up): no connection takes it while the engine is restarted."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Problem("no free port for the engine between 20000 and 32000; give --engine-port")


class Pod:
    def __init__(
        self, settings: Settings, wanted: spec.PodSpec, listener: socket.socket, journal: Journal, children: Children
    ) -> None:
        self.stop, self._started, self._host = asyncio.Event(), time.monotonic(), report.Host()
        self._spec, self._journal, self._children = wanted, journal, children
        engine, bridge = launches(settings, wanted, listener)
        self.engine = Keeper(engine, ENGINE, children, journal)
        self.bridge = Keeper(bridge, BRIDGE, children, journal)

    def start(self) -> None:
        say, serial, model = self._journal.say, self._spec.serial, self._spec.serve.model
        hello = f"bootstrap {report.VERSION}, pid {os.getpid()}: serial {serial}, model {model}"
        say("info", f"{hello}, bridge on {self.bridge.launch.health}")
        say("info", "engine command: " + " ".join(self.engine.shown))
        for setting in spec.not_in_force(self._spec):
            say("warning", f"pod.toml: {setting} is read, but this version does not act on it")
        self.engine.post(RestartRequested())
        self.bridge.post(RestartRequested())

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.engine.post(Tick())
            self.bridge.post(Tick())

    async def watch_host(self, every_s: float = 2.0, limit_s: float = 10.0) -> None:
        """What nvidia-smi says, asked again and again without making anyone wait; that there is none is a fact."""
        env, cuda = self.engine.launch.env, None
        if (program := shutil.which("nvidia-smi", path=env.get("PATH"))) is None:
            return
        while True:
            try:
                cuda = cuda or host.cuda_version(await self._children.output((program,), env, limit_s))
                rows = await self._children.output((program, *host.QUERY), env, limit_s)
                self._host = host.parse_query(rows, cuda)
            except Problem as error:
                self._host = report.Host(driver=self._host.driver, cuda=cuda, gpu_error=str(error))
            await asyncio.sleep(every_s)

    async def wind_down(self) -> None:
        """Bridge, then engine; returns when both are stopped, or when time is up and the sweep must do the rest."""
        self._journal.say("info", "stopping")
        try:
            async with asyncio.timeout(STOP_LIMIT_S - _SWEEP_S - 0.5):
                for keeper, limit_s in ((self.bridge, BRIDGE_STOP_S), (self.engine, ENGINE_STOP_S)):
                    keeper.post(StopRequested(limit_s))
                    await keeper.stopped.wait()
        except TimeoutError:
            self._journal.say("error", "not everything stopped in time; killing what is left")

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request of the control socket. Errors: Problem, when it makes no sense."""
        match request:
            case {"cmd": "status"}:
                after = request.get("log_after")
                if after is not None and type(after) is not int:
                    raise Problem("log_after must be a whole number")
                return {"status": asdict(self.status(after))}
            case {"cmd": "restart", "service": "engine" | "bridge" as name}:
                if self.stop.is_set():
                    raise Problem("the pod is stopping")
                (self.engine if name == "engine" else self.bridge).post(RestartRequested())
            case {"cmd": "stop-pod"}:
                self.stop.set()
            case _:
                raise Problem('cmd must be "status", "stop-pod" or "restart", with "engine" or "bridge" as its service')
        return {}

    def status(self, log_after: int | None) -> report.Status:
        log, log_next = self._journal.since(log_after)
        return report.Status(
            version=report.VERSION,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            serial=self._spec.serial,
            model=self._spec.serve.model,
            config_error=None,
            engine=self.engine.view(),
            bridge=self.bridge.view(),
            host=self._host,
            log=log,
            log_next=log_next,
        )


def launches(settings: Settings, wanted: spec.PodSpec, listener: socket.socket) -> tuple[Launch, Launch]:
    port, control, fd = settings.engine_port or free_port(), str(settings.socket.absolute()), listener.fileno()
    url, environ = f"http://127.0.0.1:{port}", settings.environ
    address, bridge_port = listener.getsockname()[:2]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    health = f"http://{f'[{reached}]' if ':' in reached else reached}:{bridge_port}/healthz"
    return (
        Launch("engine", engine_argv(wanted, settings.vllm, port), engine_env(wanted, environ), f"{url}/health"),
        Launch("bridge", settings.bridge, bridge_env(wanted, environ, fd, url, control), health, fd),
    )
