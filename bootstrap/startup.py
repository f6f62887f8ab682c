"""What must be had before anything is started: the bridge's socket, the state folder, the config. An edge."""

from __future__ import annotations

import errno
import random
import socket
from dataclasses import dataclass, field
from pathlib import Path

from bootstrap import ctlsocket, spec
from bootstrap.service import BRIDGE, ENGINE, Policy

EXIT_REFUSED = 2
EXIT_USAGE = 64


class CannotStart(Exception):
    """One line for the operator, and the exit code that goes with it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that `run` was asked for."""

    config: Path
    state: Path
    socket: Path
    host: str
    port: int
    engine_port: int
    """0: take a free one."""
    vllm: tuple[str, ...]
    bridge: tuple[str, ...]
    client_token: str = field(repr=False)
    operator_token: str = field(repr=False)
    environ: dict[str, str] = field(repr=False)
    engine_policy: Policy = ENGINE
    bridge_policy: Policy = BRIDGE


@dataclass(frozen=True, slots=True)
class Ready:
    """What `run` needs, had."""

    spec: spec.PodSpec
    listener: socket.socket
    control: socket.socket
    engine_port: int


def prepare(settings: Settings) -> Ready:
    """Everything or nothing, the bridge's socket first. Errors: CannotStart."""
    listener = listen(settings.host, settings.port)
    try:
        read = read_config(settings.config)
        make_state(settings.state)
        engine_port = settings.engine_port or free_port()
        return Ready(read, listener, ctlsocket.bind(settings.socket), engine_port)
    except ctlsocket.SocketProblem as error:
        listener.close()
        raise CannotStart(str(error), EXIT_REFUSED) from error
    except CannotStart:
        listener.close()
        raise


def listen(host: str, port: int) -> socket.socket:
    """The bridge's listening socket; create_server sets SO_REUSEADDR, for a restart within TIME_WAIT."""
    if not 0 <= port <= 65_535:
        raise CannotStart(f"--port {port} is not between 0 and 65535", EXIT_USAGE)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"port {port} on {host} is in use by another program; stop it, or give another --port"
            raise CannotStart(message, EXIT_REFUSED) from error
        raise CannotStart(f"cannot listen on {host} port {port}: {error.strerror or error}", EXIT_REFUSED) from error


def read_config(path: Path) -> spec.PodSpec:
    try:
        return spec.parse(path.read_bytes().decode())
    except OSError as error:
        raise CannotStart(f"cannot read the config {path}: {error.strerror}", EXIT_USAGE) from error
    except UnicodeDecodeError as error:
        raise CannotStart(f"the config {path} is not UTF-8", EXIT_USAGE) from error
    except spec.SpecError as error:
        raise CannotStart(str(error), EXIT_USAGE) from error


def make_state(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "logs").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise CannotStart(f"cannot use {path} as the state folder: {error.strerror}", EXIT_REFUSED) from error


def free_port() -> int:
    """A loopback port below Linux's ephemeral range (32768 up), so that no outgoing connection takes it while the
    engine is being restarted.
    """
    for _ in range(100):
        port = random.randrange(20_000, 32_000)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise CannotStart("no free port for the engine between 20000 and 32000; give --engine-port", EXIT_REFUSED)
