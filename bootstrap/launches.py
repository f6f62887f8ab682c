"""What the pod runs, as launches: the engine of each model, the bridge, the hub worker, the desktop."""

import contextlib
import json
import os
import random
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bootstrap.command import bridge_env, engine_argv, engine_env, sleeps
from bootstrap.errors import Problem
from bootstrap.hubworker import Job
from bootstrap.keeper import Launch
from bootstrap.machine import BRIDGE, ENGINE
from bootstrap.spec import PodSpec
from bootstrap.toml_reader import beside

WORKER_SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    config: Path | None
    hub: str | None  # store of the config; it goes before `config`
    state: Path
    socket: Path
    host: str
    port: int
    engine_port: int  # 0: take a free one
    vllm: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    bridge: tuple[str, ...] = (sys.executable, "-P", "-m", "bridge")
    archive: str | None = None  # the zipapp that we run from
    code: str | None = None  # its sha256

    @property
    def pod_id(self) -> str | None:
        return self.environ.get("RUNPOD_POD_ID")

    @property
    def engine_python(self) -> str | None:
        """The interpreter that has vLLM; None where the engine is something else."""
        program = shutil.which(self.vllm[0], path=self.environ.get("PATH"))
        if len(self.vllm) > 1 or program is None:
            return None
        beside = Path(program).with_name("python3")
        return str(beside) if beside.exists() else shutil.which("python3", path=self.environ.get("PATH"))

    @property
    def weights(self) -> str:
        """The folder that downloads go to, or one of the same disk."""
        return next((path for path in (self.environ.get("HF_HOME", ""), "/workspace") if os.path.isdir(path)), "/")

    @property
    def path(self) -> dict[str, str]:
        """By which children find our packages in the zipapp, where we run from one."""
        return {"PYTHONPATH": self.archive} if self.archive else {}


def engine(settings: Settings, spec: PodSpec, key: str, port: int, *, peer_to_peer: bool) -> Launch:
    argv = engine_argv(spec, key, settings.vllm, port)
    env = engine_env(spec, key, settings.environ, peer_to_peer=peer_to_peer)
    policy = replace(ENGINE, sleeps=sleeps(spec))
    return Launch("engine", argv, env, f"http://127.0.0.1:{port}/health", policy=policy)


def bridge(settings: Settings, spec: PodSpec, listener: socket.socket, engine_url: str) -> Launch:
    fd, control = listener.fileno(), str(settings.socket.absolute())
    env = bridge_env(spec, settings.environ, fd, engine_url, control) | settings.path
    address, port = listener.getsockname()[:2]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    health = f"http://{f'[{reached}]' if ':' in reached else reached}:{port}/healthz"
    return Launch("bridge", settings.bridge, env, health, fd=fd, policy=BRIDGE)


def worker(settings: Settings, spec: PodSpec | None, log: Path, *, stop: bool) -> Launch:
    mirror, every_s = (spec.log.mirror, spec.log.every_seconds) if spec else (None, 25.0)
    name = settings.pod_id or socket.gethostname()
    stopped = settings.pod_id if stop else None
    job = asdict(Job(settings.hub, mirror, name, every_s, str(log), str(settings.state), stopped))
    argv = (sys.executable, "-P", "-m", "bootstrap.hubworker", json.dumps(job))
    return Launch("hub", argv, {**settings.environ, **settings.path}, silence_s=WORKER_SILENCE_S)


def desktop(settings: Settings) -> Launch:
    return Launch("desktop", ("bash", "-c", beside("desktop.sh"), "desktop", str(settings.state)), settings.environ)


def free_port() -> int:
    """On loopback, below Linux's ephemeral range (32768 up): no connection takes it while the engine is restarted."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Problem("no free port for the engine between 20000 and 32000; give --engine-port")
