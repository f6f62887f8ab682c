"""PID 1 at work: wires sockets, processes, probes and clock to the two machines. An edge; decides nothing itself.

Every process of the pod is gone within STOP_LIMIT_S of a stop: the bridge first, so that its streams may end, then the
engine, then by SIGKILL whatever descends from us and still lives.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

from bootstrap import ctlsocket, report
from bootstrap.command import Wiring, bridge_env, engine_argv, engine_env
from bootstrap.events import RestartRequested, StartRequested, StopRequested, Tick
from bootstrap.keeper import Keeper, Launch
from bootstrap.logtap import Journal
from bootstrap.probes import HostWatch
from bootstrap.processes import Children, become_subreaper
from bootstrap.redact import Redactor, secret_values
from bootstrap.spec import not_in_force
from bootstrap.startup import EXIT_REFUSED, CannotStart, Ready, Settings, prepare

TICK_S = 0.25
BRIDGE_STOP_S = 3.0
ENGINE_STOP_S = 4.0
STOP_LIMIT_S = 10.0
_SWEEP_S = 1.5


def run(settings: Settings, version: str) -> int:
    """Serve until a signal or `stop-pod`; the exit code. Errors: CannotStart, before anything was started."""
    ready = prepare(settings)
    try:
        secrets = (settings.client_token, settings.operator_token, *secret_values(settings.environ))
        redactor = Redactor((*secrets, *secret_values(dict(ready.spec.serve.env))))
        try:
            journal = Journal(settings.state / "logs", redactor, time.time)
        except OSError as error:
            raise CannotStart(f"cannot write {settings.state / 'logs'}: {error.strerror}", EXIT_REFUSED) from error
        try:
            asyncio.run(_main(settings, ready, journal, redactor, version))
        finally:
            journal.close()
    finally:
        ready.listener.close()
        ready.control.close()
        settings.socket.unlink(missing_ok=True)
    return 0


async def _main(settings: Settings, ready: Ready, journal: Journal, redactor: Redactor, version: str) -> None:
    loop = asyncio.get_running_loop()
    become_subreaper()
    children = Children(loop)
    loop.add_signal_handler(signal.SIGCHLD, children.reap)
    try:
        async with asyncio.TaskGroup() as tasks:
            pod = Pod(settings, ready, journal, redactor, children, tasks, version)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, pod.stop.set)
            background = [
                tasks.create_task(work)
                for work in (pod.tick(), pod.engine.probe(), pod.bridge.probe(), pod.watch.run())
            ]
            async with ctlsocket.serving(ready.control, pod.handle):
                pod.start()
                await pod.stop.wait()
                await pod.wind_down()
            for task in background:
                task.cancel()
            if left := await children.sweep(_SWEEP_S):
                journal.say("error", f"still alive at the end: {sorted(left)}")
            else:
                journal.say("info", "bootstrap ends; nothing is left")
    finally:
        await children.sweep(_SWEEP_S)
        loop.remove_signal_handler(signal.SIGCHLD)


class Pod:
    """The two services, and the answers to what is asked of them."""

    def __init__(
        self,
        settings: Settings,
        ready: Ready,
        journal: Journal,
        redactor: Redactor,
        children: Children,
        tasks: asyncio.TaskGroup,
        version: str,
    ) -> None:
        self.stop = asyncio.Event()
        self.watch = HostWatch(children, engine_env(ready.spec, settings.environ))
        self._settings, self._ready, self._journal, self._version = settings, ready, journal, version
        self._redactor, self._started = redactor, time.monotonic()
        engine, bridge = _engine(settings, ready), _bridge(settings, ready)
        self.engine = Keeper(engine, settings.engine_policy, children, journal, tasks, time.monotonic)
        self.bridge = Keeper(bridge, settings.bridge_policy, children, journal, tasks, time.monotonic)
        self._keepers = {"engine": self.engine, "bridge": self.bridge}

    def start(self) -> None:
        spec, port = self._ready.spec, self._ready.listener.getsockname()[1]
        self._journal.say(
            "info",
            f"bootstrap {self._version}, pid {os.getpid()}: serial {spec.serial}, model {spec.serve.model}, "
            f"bridge on {self._settings.host} port {port}, engine on port {self._ready.engine_port}",
        )
        for setting in not_in_force(spec):
            self._journal.say("warning", f"pod.toml: {setting} is read, but this version does not act on it")
        self._journal.say("info", "engine command: " + " ".join(self._redactor.argv(self.engine.launch.argv)))
        self.engine.post(StartRequested())
        self.bridge.post(StartRequested())

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for keeper in self._keepers.values():
                keeper.post(Tick())

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
        """One request of the control socket."""
        match request:
            case {"cmd": "status"}:
                after = request.get("log_after")
                if after is not None and (not isinstance(after, int) or isinstance(after, bool)):
                    return ctlsocket.refusal("log_after must be a whole number")
                return {"ok": True, "status": report.to_json(self.status(after))}
            case {"cmd": "restart", "service": "engine" | "bridge" as name}:
                if self.stop.is_set():
                    return ctlsocket.refusal("the pod is stopping")
                self._keepers[name].post(RestartRequested())
                return {"ok": True}
            case {"cmd": "restart"}:
                return ctlsocket.refusal('service must be "engine" or "bridge"')
            case {"cmd": "stop-pod"}:
                self.stop.set()
                return {"ok": True}
            case _:
                return ctlsocket.refusal('cmd must be "status", "restart" or "stop-pod"')

    def status(self, log_after: int | None) -> report.Status:
        log, log_next = self._journal.since(log_after)
        return report.Status(
            version=self._version,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            serial=self._ready.spec.serial,
            model=self._ready.spec.serve.model,
            config_error=None,
            engine=self._view(self.engine),
            bridge=self._view(self.bridge),
            host=self.watch.host,
            log=log,
            log_next=log_next,
        )

    def _view(self, keeper: Keeper) -> report.Service:
        return keeper.view(self._redactor.argv(keeper.launch.argv))


def _engine(settings: Settings, ready: Ready) -> Launch:
    return Launch(
        name="engine",
        argv=engine_argv(ready.spec, settings.vllm, ready.engine_port),
        env=engine_env(ready.spec, settings.environ),
        address="127.0.0.1",
        port=ready.engine_port,
        health="/health",
        owns_orphans=True,
    )


def _bridge(settings: Settings, ready: Ready) -> Launch:
    address, port = ready.listener.getsockname()[:2]
    fd = ready.listener.fileno()
    wiring = Wiring(
        listen_fd=fd,
        engine_url=f"http://127.0.0.1:{ready.engine_port}",
        bootstrap_socket=str(settings.socket.absolute()),
        client_token=settings.client_token,
        operator_token=settings.operator_token,
    )
    return Launch(
        name="bridge",
        argv=settings.bridge,
        env=bridge_env(ready.spec, settings.environ, wiring),
        address={"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address),
        port=port,
        health="/healthz",
        owns_orphans=False,
        pass_fds=(fd,),
    )
