"""SSH servers for tests, on loopback: Debian's own sshd, and one by asyncssh that behaves like RunPod's proxy."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from control.models import SshAddress

PROGRAM = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")

needs_sshd = pytest.mark.skipif(PROGRAM is None, reason="no sshd on this machine; .ci/run installs it")

UP_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Sshd:
    address: SshAddress
    key: Path
    """The one client key that it takes."""


def make_key(path: Path) -> str:
    """A new key pair there; its public line."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    return key.export_public_key().decode()


@contextlib.contextmanager
def sshd(folder: Path, *, port: int | None = None, lines: tuple[str, ...] = ()) -> Iterator[Sshd]:
    """A real OpenSSH server as this user, with its own host key (kept in `folder`) and one authorised client key."""
    assert PROGRAM is not None
    folder.mkdir(exist_ok=True)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # a root's sshd refuses to start without it
    if not (folder / "client").exists():
        (folder / "authorized").write_text(make_key(folder / "client"))
    if not (folder / "host").exists():
        make_key(folder / "host")
    port = port or free_port()
    config = folder / "sshd_config"
    config.write_text(
        "\n".join(
            (
                f"Port {port}",
                "ListenAddress 127.0.0.1",
                f"HostKey {folder / 'host'}",
                f"AuthorizedKeysFile {folder / 'authorized'}",
                "PidFile none",
                "StrictModes no",
                "UsePAM no",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                *lines,
            )
        )
    )
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stderr=log)
    try:
        _wait_for_banner(port, process, folder / "sshd.log")
        yield Sshd(SshAddress("127.0.0.1", port, getpass.getuser()), folder / "client")
    finally:
        process.terminate()
        process.wait(10)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A PATH on which `sshd` is a real one that can be started here."""

    folder: Path
    port: int

    @property
    def address(self) -> SshAddress:
        return SshAddress("127.0.0.1", self.port, getpass.getuser())

    @property
    def path(self) -> str:
        return f"{self.folder}:{os.environ['PATH']}"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def wait(self) -> int:
        """The server's pid, once it has written it. It may be as slow as the pod's start is."""
        until = time.monotonic() + UP_WITHIN_S
        while not (file := self.folder / "pid").exists() or not file.read_text().strip():
            assert time.monotonic() < until, "no sshd was started"
            time.sleep(0.02)
        return int(file.read_text())


@contextlib.contextmanager
def wrapped_sshd(folder: Path) -> Iterator[Wrapped]:
    """sshd takes the first word on each option, so that ours win: a free port of loopback, and no need to be root."""
    (folder / "home").mkdir(parents=True)
    made = Wrapped(folder, free_port())
    options = [
        f"Port={made.port}",
        "ListenAddress=127.0.0.1",
        f"PidFile={folder / 'pid'}",
        "StrictModes=no",
        "UsePAM=no",
    ]
    words = " ".join(f"-o {option}" for option in options)
    (folder / "sshd").write_text(f'#!/bin/sh\nexec {PROGRAM} -f /dev/null {words} "$@"\n')
    (folder / "sshd").chmod(0o755)
    try:
        yield made
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((folder / "pid").read_text()), signal.SIGTERM)


@contextlib.contextmanager
def ssh_agent(path: Path, *keys: Path) -> Iterator[str]:
    """A real agent with those keys; yields its socket."""
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + UP_WITHIN_S
        while not path.exists():
            assert time.monotonic() < until, "no ssh-agent"
            time.sleep(0.02)
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], env={**os.environ, "SSH_AUTH_SOCK": str(path)}, check=True)
        yield str(path)
    finally:
        process.terminate()
        process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_banner(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as probe:
            if probe.recv(4) == b"SSH-":
                return
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(f"sshd said nothing within {UP_WITHIN_S:g} s: {log.read_text()}")


PTY_WORDS = "Error: Your SSH client doesn't support PTY\n"


async def _proxy_session(process: asyncssh.SSHServerProcess[str]) -> None:
    """Without a PTY: refused, on stdout, exit 1. With one: what was asked is echoed, nothing runs, exit 0."""
    if process.term_type is None:
        process.stdout.write(PTY_WORDS)
        process.exit(1)
        return
    process.stdout.write(f"{process.command or ''}\r\n")
    process.exit(0)


async def _silent_session(process: asyncssh.SSHServerProcess[str]) -> None:
    """The silent success: the command is echoed, as a terminal would, never run, and reported as done."""
    process.stdout.write(f"{process.command or ''}\r\n")
    process.exit(0)


class _AnyKey(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return True


@contextlib.asynccontextmanager
async def proxy(folder: Path, *, silent: bool = False) -> AsyncIterator[Sshd]:
    """RunPod's SSH proxy, as it was measured; `silent` is how it behaves to a client that asks for a PTY."""
    make_key(folder / "client")
    server = await asyncssh.create_server(
        _AnyKey,
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        process_factory=_silent_session if silent else _proxy_session,
    )
    try:
        yield Sshd(SshAddress("127.0.0.1", server.get_port(), "pod-6441103b"), folder / "client")
    finally:
        server.close()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def bootstrap_socket(path: Path, answers: dict[str, str]) -> AsyncIterator[list[str]]:
    """A supervisor's socket that answers each command with the given line; yields the lines that it was asked."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while line := await reader.readline():
                asked.append(line.decode().strip())
                command = next((word for word in answers if f'"{word}"' in line.decode()), None)
                if command is None:
                    return
                writer.write(answers[command].encode() + b"\n")
                await writer.drain()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield asked
    finally:
        server.close()


CTL = """import json, socket, sys
path, words = sys.argv[3], sys.argv[4:]
request = {"cmd": words[0]} | ({"service": words[1]} if words[0] == "restart" else {})
with socket.socket(socket.AF_UNIX) as client:
    try:
        client.connect(path)
    except OSError as error:
        sys.exit(sys.stderr.write(f"passerelle-bootstrap: no bootstrap answers on {path}: {error}") and 3)
    client.sendall(json.dumps(request).encode() + b"\\n")
    response = json.loads(client.makefile().readline())
if not response["ok"]:
    sys.exit(sys.stderr.write("passerelle-bootstrap: " + response["error"]) and 2)
print(json.dumps(response.get("status", response), indent=2))
"""
"""What `passerelle-bootstrap ctl --socket PATH WORDS…` does, in a few lines."""


def ctl_program(folder: Path) -> str:
    path = folder / "ctl.py"
    path.write_text(CTL)
    return f"{sys.executable} {path}"
