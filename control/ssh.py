"""The only file that speaks SSH: direct TCP to a pod's own sshd, and through it to bootstrap's socket there.

asyncssh's exceptions end here: SshSilent (nobody answers), SshRefused (our key is not taken), HostKeyChanged,
NoShell (it answers and runs nothing: RunPod's proxy), Unreachable (no bootstrap behind it).
Nothing of the operator's own SSH configuration is read, save the keys that Identity names.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import asyncssh

from control.challenge import MOST, NEED_TCP, Challenge, NoShell, proxy_refused
from control.ctl import Request, Response, answer, ctl_answer, ctl_words, line
from control.errors import Refused, Unreachable
from control.hostkeys import HostKeys
from control.models import PodId, SshAddress
from control.settings import Identity
from control.ssh_keys import UNUSABLE, why

CONNECT_S = 8.0
LOGIN_S = 12.0
KEEPALIVE_S = 15.0
ASK_S = 10.0
"""For one question to bootstrap, the start of a Python in a busy pod included."""

HOST_KEY_ALGS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
"""Plain keys only: nobody certifies a rented pod's host key."""

SOCKETS = ("/workspace/passerelle/bootstrap.sock", "/var/lib/passerelle/bootstrap.sock")
"""Where bootstrap listens in a pod: with a volume, and without."""

PROGRAMS = ("passerelle-bootstrap", "python3 -P /workspace/passerelle/start/passerelle.pyz")
"""Bootstrap's program: in an image that has it installed, else the zipapp that the pod fetched. Shell words."""


class SshSilent(Unreachable):
    """Nothing answered at the address, or not in SSH."""


class SshRefused(Refused):
    """It does not take our key, or our key cannot be read."""


class HostKeyChanged(Refused):
    """Another host key than the one that was pinned for this pod."""


class PodShell:
    """One SSH connection to one pod. Use as an async context manager."""

    def __init__(
        self,
        pod_id: PodId,
        address: SshAddress,
        pins: HostKeys,
        identity: Identity | None = None,
        *,
        socket: str | None = None,
        programs: Sequence[str] = PROGRAMS,
    ) -> None:
        self._pod_id = pod_id
        self._address = address
        self._pins = pins
        self._identity = identity or Identity()
        self._sockets: tuple[str, ...] = SOCKETS if socket is None else (socket,)
        self._where_words = [] if socket is None else ["--socket", socket]
        self._programs = programs
        self._connection: asyncssh.SSHClientConnection | None = None

    async def __aenter__(self) -> Self:
        if (refused := proxy_refused(self._address.host)) is not None:
            raise refused
        line = self._pins.get(self._pod_id)
        contact = _Contact(None if line is None else self._imported(line))
        with self._ours(contact):
            async with asyncio.timeout(CONNECT_S + LOGIN_S):
                self._connection = await self._connect(contact)
        if contact.pinned is None and contact.offered is not None:
            # Only now: a stranger at a stale address does not take our key, and is not pinned for it.
            self._pins.pin(self._pod_id, _text(contact.offered))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def ask(self, request: Request) -> Response:
        """One question to bootstrap. Raises Refused with its own words, Unreachable, NoShell."""
        with self._ours():
            async with asyncio.timeout(ASK_S):
                for socket in self._sockets:
                    with contextlib.suppress(asyncssh.ChannelOpenError):
                        said = await self._over_socket(socket, request)
                        self._sockets = (socket,)
                        return answer(said, self._where())
                self._sockets = ()  # sshd forwards none, or none is there: not tried again on this connection
                return await self._over_ctl(request)

    async def _connect(self, contact: _Contact) -> asyncssh.SSHClientConnection:
        return await asyncssh.connect(
            self._address.host,
            self._address.port,
            username=self._address.user,
            config=[],
            # No key is trusted by a list: each is shown to the contact, so that a changed one can be named.
            known_hosts=lambda *_: ([], [], []),
            server_host_key_algs=contact.algorithms(),
            x509_trusted_certs=None,
            client_factory=lambda: contact,
            client_keys=self._keys(),
            agent_path=self._identity.agent,
            preferred_auth="publickey",
            connect_timeout=CONNECT_S,
            login_timeout=LOGIN_S,
            keepalive_interval=KEEPALIVE_S,
        )

    def _keys(self) -> list[asyncssh.SSHKey] | tuple[()]:
        """The key that is named; () is OpenSSH's usual files to asyncssh, and None would switch its agent off too."""
        path = self._identity.key
        if path is None:
            return ()
        try:
            return [asyncssh.read_private_key(path)]
        except UNUSABLE as error:
            raise SshRefused(
                f"the SSH key {path} cannot be used: {why(error)}",
                "name another (passerelle init --ssh-key FILE), or load it into an agent (--ssh-agent SOCKET)",
            ) from error

    def _imported(self, line: str) -> asyncssh.SSHKey:
        try:
            return asyncssh.import_public_key(line)
        except asyncssh.KeyImportError as error:
            path = self._pins.path(self._pod_id)
            raise SshRefused(f"{path} holds no host key ({error})", self._forget()) from error

    async def _over_socket(self, socket: str, request: Request) -> bytes:
        """Through sshd's own forwarding of unix sockets: no program to find there, none to start."""
        assert self._connection is not None
        reader, writer = await self._connection.open_unix_connection(socket, encoding=None)
        try:
            writer.write(line(request))
            return _bytes(await reader.readline())
        finally:
            writer.close()

    async def _over_ctl(self, request: Request) -> Response:
        """Where sshd forwards nothing: the program in the pod, if a shell really runs what we send."""
        assert self._connection is not None
        challenge = Challenge(secrets.randbelow(MOST), secrets.randbelow(MOST))
        command = challenge.command(self._programs, ["ctl", *self._where_words, *ctl_words(request)])
        try:
            done = await self._connection.run(command, encoding=None, stdin=asyncssh.DEVNULL)
        except asyncssh.ChannelOpenError as error:
            raise NoShell(f"the SSH server at {self._where()} runs no commands ({error.reason})", NEED_TCP) from error
        out, err = _bytes(done.stdout), _bytes(done.stderr)
        said = challenge.said(out, err, done.exit_status, self._where())
        return ctl_answer(request, done.exit_status, said, err, self._where())

    @contextlib.contextmanager
    def _ours(self, contact: _Contact | None = None) -> Iterator[None]:
        """Re-raise what asyncssh and the system raise as ours."""
        where = self._where()
        try:
            yield
        except asyncssh.PermissionDenied as error:
            raise SshRefused(
                f"the pod at {where} does not take our SSH key",
                "name the key that the pod was created with: passerelle init --ssh-key FILE (or --ssh-agent SOCKET)",
            ) from error
        except TimeoutError as error:
            raise SshSilent(f"the SSH server at {where} did not answer in time") from error
        except asyncssh.Error as error:
            if contact is not None and contact.changed():
                raise self._changed(contact) from error
            raise SshSilent(f"no SSH with {where}: {error.reason}") from error
        except OSError as error:
            raise SshSilent(f"no SSH with {where}: {error.strerror or error}") from error

    def _changed(self, contact: _Contact) -> HostKeyChanged:
        was, offered = (key.get_fingerprint() if key else "" for key in (contact.pinned, contact.offered))
        return HostKeyChanged(
            f"the SSH server at {self._where()} is not the one that was pinned for pod {self._pod_id}:"
            f" its host key is {offered}, and was {was}. Nothing was sent to it",
            "another machine may have this address now: look again in a minute. If this pod got a new disk (a stop and"
            f" a start re-make it), {self._forget()}",
        )

    def _forget(self) -> str:
        return f"forget the old key: passerelle ssh-key {self._pod_id} --forget"

    def _where(self) -> str:
        return f"{self._address.host}:{self._address.port}"


class _Contact(asyncssh.SSHClient):
    """One attempt to connect: takes the pinned host key, or any when none is pinned, and notes which was offered."""

    def __init__(self, pinned: asyncssh.SSHKey | None) -> None:
        self.pinned = pinned
        self.offered: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.offered = key
        return not self.changed()

    def changed(self) -> bool:
        return self.pinned is not None and self.offered is not None and self.offered != self.pinned

    def algorithms(self) -> tuple[str, ...]:
        """The pinned kind first: a server that has several kinds shows the one that we know."""
        pinned = [] if self.pinned is None else [name.decode() for name in self.pinned.sig_algorithms]
        return tuple(sorted(HOST_KEY_ALGS, key=lambda name: name not in pinned))


def _bytes(read: bytes | str | None) -> bytes:
    """asyncssh's types do not know that encoding=None reads bytes."""
    return read if isinstance(read, bytes) else (read or "").encode()


def _text(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])
