"""The operator's SSH key: usable or not and why, its public half wherever it lies, a new one that replaces none."""

from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

from control import ssh_keys
from control.errors import Refused
from control.settings import Identity
from tests.control.sshd import make_key, needs_sshd, ssh_agent


def alone(line: str) -> str:
    return " ".join(line.split()[:2])


async def test_the_public_half_is_read_or_made(tmp_path: Path) -> None:
    key = tmp_path / "key"
    line = make_key(key)
    assert [alone(found) for found in await ssh_keys.public_lines(Identity(key))] == [alone(line)]
    key.with_name("key.pub").write_text(line + "\n")
    key.write_text("locked away")
    assert await ssh_keys.public_lines(Identity(key)) == (line.strip(),), "the file beside it is enough"


async def test_of_a_key_with_a_passphrase_the_file_beside_it(tmp_path: Path) -> None:
    key, made = tmp_path / "key", asyncssh.generate_private_key("ssh-ed25519")
    key.write_bytes(made.export_private_key("pkcs8-pem", passphrase="secret"))
    assert await ssh_keys.public_lines(Identity(key)) == ()
    line = made.export_public_key().decode().strip()
    key.with_name("key.pub").write_text(line)
    assert await ssh_keys.public_lines(Identity(key)) == (line,)


async def test_without_a_name_those_that_openssh_would_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert await ssh_keys.public_lines(Identity()) == ()
    (tmp_path / ".ssh").mkdir()
    lines = [make_key(tmp_path / ".ssh" / name) for name in ("id_rsa", "id_ed25519", "other")]
    found = await ssh_keys.public_lines(Identity())
    assert [alone(line) for line in found] == [alone(lines[1]), alone(lines[0])]


@needs_sshd
@pytest.mark.process
async def test_an_agents_keys(tmp_path: Path) -> None:
    ours = alone(make_key(tmp_path / "key"))
    rsa = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    (tmp_path / "rsa").write_bytes(rsa.export_private_key())
    (tmp_path / "rsa").chmod(0o600)
    with ssh_agent(tmp_path / "agent") as agent:
        assert await ssh_keys.agent_keys(agent) == 0
        assert await ssh_keys.public_lines(Identity(agent=agent)) == ()
    with ssh_agent(tmp_path / "agent2", tmp_path / "key", tmp_path / "rsa") as agent:
        assert await ssh_keys.agent_keys(agent) == 2
        assert await ssh_keys.public_lines(Identity(agent=agent)) == (ours, alone(rsa.export_public_key().decode()))


async def test_no_agent(tmp_path: Path) -> None:
    assert await ssh_keys.agent_keys(str(tmp_path / "none")) is None


def test_a_new_key_is_ours_alone_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key"
    line = ssh_keys.make_key(path)
    assert line.startswith("ssh-ed25519 ")
    assert line.endswith(" passerelle")
    assert path.with_name("key.pub").read_text().strip() == line
    assert ssh_keys.key_fault(path) is None
    with pytest.raises(Refused, match="cannot make a key"):
        ssh_keys.make_key(path)
    path.chmod(0o644)
    assert ssh_keys.key_fault(path) == "others can read it (chmod 600)"
    assert ssh_keys.key_fault(tmp_path / "none") == "No such file or directory"
    path.write_text("x")
    assert ssh_keys.key_fault(path) is not None


def test_a_fingerprint_is_what_openssh_prints() -> None:
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q"
    assert ssh_keys.fingerprint(line) == "SHA256:FHsTyFHNmvNpw4o7+rp+M1yqMyBF8vXSBRkZtkQ0RKY"
