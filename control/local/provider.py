"""The Provider of embedded pods: a supervisor process on this machine with its engine and bridge on loopback."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from control import draft
from control.clock import Clock
from control.errors import NoSuchPod, PortInUse, Refused, Unreachable
from control.hub_dir import DirStore
from control.keys import fresh_tokens
from control.local import logs as local_logs
from control.local import processes
from control.local.store import LocalPod, ProcessMark, Store
from control.models import Bill, Pod, PodId, PodLogLine, PodState, Price, Tokens
from control.store import home

DEFAULT_PRICE = 0.74
"""Dollars per hour: what the pod would cost if it were rented; nothing is billed for it."""

UP_WITHIN_S = 20.0
"""From the start of the supervisor to the bridge's first answer."""

FORCE_AFTER_S = 15.0
"""The supervisor ends everything within 10 s; a second stop after this long kills what is left."""

SIMULATOR = (sys.executable, "-P", "-m", "control.local.engine")


@dataclass(frozen=True, slots=True)
class Options:
    """What an embedded pod is made of."""

    engine: str = "simulated"
    """ "simulated" or "vllm"."""
    vllm: str | None = None
    """Path of the vllm program; None looks for it on PATH."""
    config: Path | None = None
    """A pod.toml; None takes the one that comes with the simulated engine."""
    sim: tuple[str, ...] = ()
    """Flags of the simulated engine (docs/simulator.md)."""
    port: int | None = None
    price: float = DEFAULT_PRICE


class LocalProvider:
    """See control.provider.Provider."""

    name = "local"
    look_every_s = 0.5

    def __init__(self, root: Path | None = None) -> None:
        self._store = Store(root or home())

    async def create(self, options: Options) -> Pod:
        """A new pod, up and answering. On any failure nothing of it is left."""
        if sys.platform != "linux":
            raise Refused(
                f"an embedded pod needs Linux, and this is {sys.platform}",
                "run it in WSL, a container or a virtual machine; the screen and every other verb work here",
            )
        text = _config_text(options)
        vllm = _engine_program(options)
        port = options.port or processes.free_port()
        pod_id = PodId(f"local-{secrets.token_hex(2)}")
        pod = LocalPod(pod_id, time.time(), options.engine, vllm, port, options.price)
        try:
            self._store.save(pod)
            tokens = fresh_tokens()
            self._store.save_tokens(pod_id, tokens)
            hub = DirStore(str(self._store.hub(pod_id)))
            await hub.make()
            await hub.publish(draft.sealed(text, tokens.operator), (await hub.read(())).commit, "as it was created")
            return await self.start(pod_id)
        except BaseException:
            await self.terminate(pod_id)
            raise

    async def list(self) -> tuple[Pod, ...]:
        pods = [await self.get(pod_id) for pod_id in self._store.ids()]
        return tuple(sorted(pods, key=lambda pod: -pod.created_at))

    async def get(self, pod_id: PodId) -> Pod:
        pod = self._store.load(pod_id)
        state = self._state(pod)
        if state is PodState.EXITED and pod.ended_at is None and pod.started_at is not None:
            ended = time.time() if pod.stop_asked_at is not None else self._last_sign(pod)
            billed = pod.billed_s + max(0.0, ended - pod.started_at)
            pod = self._store.update(pod, ended_at=ended, billed_s=billed, started_at=None)
        return self._pod(pod, state)

    async def start(self, pod_id: PodId) -> Pod:
        pod = self._store.load(pod_id)
        if self._state(pod) is not PodState.EXITED:
            raise Refused(f"pod {pod_id} is running already", f"watch it: passerelle watch {pod_id}")
        if not processes.port_is_free(pod.port):
            raise PortInUse(
                f"port {pod.port} on 127.0.0.1 is in use by another program",
                "choose another with --port, or leave --port out to get a free one",
            )
        supervisor = self._spawn(pod)
        started = {"started_at": time.time(), "ended_at": None, "stop_asked_at": None, "family": ()}
        pod = self._store.update(pod, supervisor=supervisor, **started)
        await self._wait_up(pod, supervisor)
        return await self.get(pod_id)

    async def stop(self, pod_id: PodId) -> None:
        pod = self._store.load(pod_id)
        if self._state(pod) is PodState.EXITED:
            return
        if pod.stop_asked_at is not None and time.time() - pod.stop_asked_at > FORCE_AFTER_S:
            processes.kill(pod.family)
            return
        processes.terminate(pod.supervisor)
        if pod.stop_asked_at is None:
            self._store.update(pod, stop_asked_at=time.time(), family=processes.family(pod.supervisor))

    async def restart(self, pod_id: PodId) -> Pod:
        """Stopped and started; its state folder stays."""
        if self._state(self._store.load(pod_id)) is not PodState.RUNNING:
            raise Refused(f"pod {pod_id} does not run", f"start it: passerelle pod start {pod_id}")
        await self.stop(pod_id)
        await self.wait_exited(pod_id)
        return await self.start(pod_id)

    async def terminate(self, pod_id: PodId) -> None:
        try:
            await self.stop(pod_id)
            await self.wait_exited(pod_id)
        except NoSuchPod:
            return
        self._store.remove(pod_id)

    async def tokens(self, pod_id: PodId) -> Tokens:
        return self._store.tokens(pod_id)

    async def wait_exited(self, pod_id: PodId, within_s: float = FORCE_AFTER_S + 10.0) -> Pod:
        """Poll until the pod is EXITED, pressing harder after FORCE_AFTER_S. Raises Unreachable when it never is."""
        until = time.monotonic() + within_s
        while True:
            pod = await self.get(pod_id)
            if pod.state is PodState.EXITED:
                return pod
            if time.monotonic() > until:
                raise Unreachable(f"pod {pod_id} has not ended within {within_s:.0f} s", "see its processes and logs")
            await self.stop(pod_id)
            await asyncio.sleep(0.1)

    def logs(self, pod_id: PodId) -> Path:
        """The folder of the pod's log files."""
        return self._store.state(pod_id) / "logs"

    async def bill(self, pod_id: PodId) -> tuple[Bill, ...]:
        """Nobody charges for an embedded pod."""
        self._store.load(pod_id)
        return ()

    async def log_lines(self, pod_id: PodId, tail: int, follow: bool) -> AsyncIterator[PodLogLine]:
        self._store.load(pod_id)
        async for line in local_logs.lines(self.logs(pod_id) / "pod.log", tail, follow, Clock()):
            yield line

    def _spawn(self, pod: LocalPod) -> ProcessMark:
        pod_id = PodId(pod.id)
        state = self._store.state(pod_id)
        state.mkdir(parents=True, exist_ok=True)
        tokens = self._store.tokens(pod_id)
        argv = [sys.executable, "-P", "-m", "bootstrap", "run", "--hub", f"dir://{self._store.hub(pod_id)}"]
        argv += ["--state", str(state), "--host", "127.0.0.1", "--port", str(pod.port)]
        argv += ["--socket", str(self._store.socket(pod_id)), *(f"--vllm={part}" for part in pod.vllm)]
        env = os.environ | {
            "PASSERELLE_CLIENT_TOKEN": tokens.client,
            "PASSERELLE_OPERATOR_TOKEN": tokens.operator,
            "PYTHONSAFEPATH": "1",
        }
        return processes.spawn(argv, env, state / "bootstrap.out")

    async def _wait_up(self, pod: LocalPod, supervisor: ProcessMark) -> None:
        until = time.monotonic() + UP_WITHIN_S
        while not await _answers(pod.port):
            code = processes.exit_code(supervisor)
            if code is not None:
                said = _tail(self._store.state(PodId(pod.id)) / "bootstrap.out")
                raise Refused(f"the pod's supervisor ended with exit code {code}: {said}")
            if time.monotonic() > until:
                raise Unreachable(
                    f"the bridge of {pod.id} has not answered on port {pod.port} within {UP_WITHIN_S:.0f} s",
                    f"its logs: {self.logs(PodId(pod.id))}",
                )
            await asyncio.sleep(0.05)

    def _state(self, pod: LocalPod) -> PodState:
        if processes.alive(pod.supervisor):
            return PodState.STOPPING if pod.stop_asked_at is not None else PodState.RUNNING
        left = [process for process in pod.family if processes.alive(process)]
        return PodState.STOPPING if left else PodState.EXITED

    def _last_sign(self, pod: LocalPod) -> float:
        """When a pod that nobody stopped was last alive: its newest log line, as nothing else was written."""
        logs = self.logs(PodId(pod.id))
        times = [path.stat().st_mtime for path in logs.glob("*.log")] if logs.is_dir() else []
        return max([*times, pod.started_at or pod.created_at])

    def _pod(self, pod: LocalPod, state: PodState) -> Pod:
        return Pod(
            id=PodId(pod.id),
            provider=self.name,
            state=state,
            price=Price(pod.price_per_hour),
            gpu=None,
            url=f"http://127.0.0.1:{pod.port}",
            created_at=pod.created_at,
            started_at=pod.started_at,
            billed_s=pod.billed_s,
            ended_at=pod.ended_at,
        )


def _config_text(options: Options) -> str:
    """The pod.toml to publish, checked here so that a mistake costs no pod."""
    name = str(options.config) if options.config else "control/local/pod.toml"
    try:
        if options.config is not None:
            text = options.config.read_text("utf-8")
        else:
            text = resources.files("control.local").joinpath("pod.toml").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {name}: {error}") from error
    draft.check(text, name)
    return text


def _engine_program(options: Options) -> tuple[str, ...]:
    if options.engine == "simulated":
        return (*SIMULATOR, *options.sim)
    program = shutil.which(options.vllm or "vllm")
    if program is None:
        raise Refused(
            f"no vllm program at {options.vllm}" if options.vllm else "there is no vllm on PATH",
            "name it with --vllm PATH, or take the simulated engine: --engine simulated",
        )
    if options.config is None:
        raise Refused("a real engine needs to know its model", "name a pod.toml with --config FILE (docs/config.md)")
    return (program,)


def _tail(path: Path) -> str:
    try:
        return " ".join(path.read_text("utf-8", "replace").split())[-600:] or "it said nothing"
    except OSError as error:
        return str(error)


async def _answers(port: int) -> bool:
    """The bridge answers /healthz with 200."""
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(
                    b"GET /healthz HTTP/1.1\r\nhost: pod\r\nuser-agent: passerelle\r\nconnection: close\r\n\r\n"
                )
                return (await reader.readline()).startswith(b"HTTP/1.1 200")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
