"""The operator's SSH key, in a file or an agent: is it usable, what is its public half, make a new one.

asyncssh's exceptions end here. No private key is shown to anybody.
"""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path

import asyncssh

from control.errors import Refused
from control.settings import Identity

UNUSABLE = (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError)
"""What reading a key file may raise."""

USUAL = ("id_ed25519", "id_ecdsa", "id_rsa")
"""Files of ~/.ssh that OpenSSH tries, newest kind first."""

AGENT_S = 8.0


def why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def key_fault(path: Path) -> str | None:
    """Why a private key cannot be used; None when it can. It is not shown to anybody."""
    try:
        asyncssh.read_private_key(path)
        readable = os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077
    except UNUSABLE as error:
        return why(error)
    return "others can read it (chmod 600)" if readable else None


async def agent_keys(path: str) -> int | None:
    """How many keys an agent holds; None when none answers there."""
    held = await _of_agent(path)
    return None if held is None else len(held)


async def public_lines(identity: Identity) -> tuple[str, ...]:
    """What a pod must know to let us in ("ssh-ed25519 AAAA…"): our key's public half, those of our agent, or else those
    of the files that OpenSSH itself would try. Empty when we have none."""
    named = _of_file(identity.key) if identity.key else None
    if named is not None:
        return (named,)
    if identity.agent is not None:
        return await _of_agent(identity.agent) or ()
    if identity.key is not None:
        return ()
    found = [_of_file(Path.home() / ".ssh" / name) for name in USUAL]
    return tuple(line for line in found if line is not None)


def _of_file(path: Path) -> str | None:
    """The public half lies beside the private one, or can be made of it; a key with a passphrase has only the first."""
    try:
        return _line(asyncssh.read_public_key(path.with_name(path.name + ".pub")))
    except UNUSABLE:
        pass
    try:
        return _line(asyncssh.read_private_key(path))
    except UNUSABLE:
        return None


async def _of_agent(path: str) -> tuple[str, ...] | None:
    try:
        async with asyncio.timeout(AGENT_S), asyncssh.connect_agent(path) as agent:
            return tuple(_line_of_pair(pair) for pair in await agent.get_keys())
    except (OSError, TimeoutError, ValueError, asyncssh.Error):
        return None


def _line(key: asyncssh.SSHKey) -> str:
    return key.export_public_key("openssh").decode("ascii").strip()


def _line_of_pair(pair: asyncssh.SSHKeyPair) -> str:
    """An agent gives no key that can be exported, but the bytes that an OpenSSH line is made of."""
    return f"{pair.get_algorithm()} {base64.b64encode(pair.public_data).decode()}"


def make_key(path: Path) -> str:
    """A new key pair of ours, at `path` and `path`.pub; its public line. Raises Refused when there is one."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment="passerelle")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.export_private_key())
        line = key.export_public_key().decode().strip()
        path.with_name(path.name + ".pub").write_text(line + "\n", "ascii")
    except OSError as error:
        raise Refused(f"cannot make a key at {path}: {error.strerror}", "name another place, or that key") from error
    return line


def fingerprint(pinned: str) -> str:
    """SHA256 fingerprint of a pinned key, as `ssh-keygen -l` prints it."""
    return asyncssh.import_public_key(pinned).get_fingerprint()
