"""SSH to a pod: a real OpenSSH server, host keys pinned by pod, and servers that only say that they ran it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from control import ssh
from control.challenge import NoShell
from control.errors import PasserelleError, Refused, Unreachable
from control.hostkeys import HostKeys
from control.models import PodId, SshAddress
from control.settings import Identity
from control.ssh import HostKeyChanged, PodShell, SshRefused, SshSilent
from tests.control.sshd import (
    Sshd,
    bootstrap_socket,
    ctl_program,
    free_port,
    make_key,
    needs_sshd,
    proxy,
    ssh_agent,
    sshd,
)

POD = PodId("k3v9x0q2ab")
NO_FORWARDING = ("AllowStreamLocalForwarding no",)


@pytest.fixture
def pins(tmp_path: Path) -> HostKeys:
    return HostKeys(tmp_path / "home")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "sshd") as running:
        yield running


def shell(server: Sshd, pins: HostKeys, socket: Path, **more: object) -> PodShell:
    return PodShell(POD, server.address, pins, Identity(key=server.key), socket=str(socket), **more)  # type: ignore[arg-type]


@needs_sshd
@pytest.mark.process
async def test_bootstraps_socket_through_a_real_sshd(server: Sshd, pins: HostKeys, tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.sock"
    answers = {"status": '{"ok":true,"status":{"serial":41}}', "swap": '{"ok":false,"error":"no model q"}'}
    async with bootstrap_socket(path, answers) as asked, shell(server, pins, path) as pod:
        assert await pod.ask({"cmd": "status", "log_after": 7}) == {"ok": True, "status": {"serial": 41}}
        with pytest.raises(Refused, match="no model q"):
            await pod.ask({"cmd": "swap", "model": "q"})
    assert [json.loads(line) for line in asked] == [{"cmd": "status", "log_after": 7}, {"cmd": "swap", "model": "q"}]


@needs_sshd
@pytest.mark.process
async def test_a_server_that_forwards_no_sockets_runs_the_pods_program(tmp_path: Path, pins: HostKeys) -> None:
    path = tmp_path / "bootstrap.sock"
    answers = {"status": '{"ok":true,"status":{"serial":41}}', "restart": '{"ok":false,"error":"stopping"}'}
    with sshd(tmp_path / "sshd", lines=NO_FORWARDING) as server:
        programs = ("no-such-passerelle-bootstrap", ctl_program(tmp_path))
        async with bootstrap_socket(path, answers) as asked, shell(server, pins, path, programs=programs) as pod:
            assert await pod.ask({"cmd": "status"}) == {"ok": True, "status": {"serial": 41}}
            with pytest.raises(Refused, match=r"^stopping$"):
                await pod.ask({"cmd": "restart", "service": "engine"})
            with pytest.raises(Unreachable, match="forwards no sockets"):
                await pod.ask({"cmd": "tail", "after": 0, "limit": 10})
    assert [json.loads(line) for line in asked] == [{"cmd": "status"}, {"cmd": "restart", "service": "engine"}]


@needs_sshd
@pytest.mark.process
async def test_no_bootstrap_and_no_program_are_told_apart(server: Sshd, pins: HostKeys, tmp_path: Path) -> None:
    nowhere = tmp_path / "none.sock"
    async with shell(server, pins, nowhere, programs=(ctl_program(tmp_path),)) as pod:
        with pytest.raises(Unreachable, match="no bootstrap answers"):
            await pod.ask({"cmd": "status"})
    async with shell(server, pins, nowhere, programs=("no-such-passerelle-bootstrap",)) as pod:
        with pytest.raises(Unreachable, match="there is no passerelle-bootstrap"):
            await pod.ask({"cmd": "status"})


@needs_sshd
@pytest.mark.process
async def test_the_pin_follows_the_pod_to_another_port(tmp_path: Path, pins: HostKeys) -> None:
    with sshd(tmp_path / "sshd") as server:
        async with shell(server, pins, tmp_path / "s"):
            pinned = pins.get(POD)
    assert pinned is not None
    assert pinned.startswith("ssh-ed25519 ")
    with sshd(tmp_path / "sshd", port=free_port()) as again:
        assert again.address.port != server.address.port
        async with shell(again, pins, tmp_path / "s"):
            assert pins.get(POD) == pinned


@needs_sshd
@pytest.mark.process
async def test_another_host_key_is_refused_before_our_key_is_shown(tmp_path: Path, pins: HostKeys) -> None:
    with sshd(tmp_path / "sshd") as server:
        async with shell(server, pins, tmp_path / "s"):
            pass
    (tmp_path / "sshd" / "host").unlink()
    with sshd(tmp_path / "sshd", lines=("LogLevel VERBOSE",)) as other:
        with pytest.raises(HostKeyChanged) as caught:
            await shell(other, pins, tmp_path / "s").__aenter__()
        assert f"passerelle ssh-key {POD} --forget" in caught.value.remedy
        assert caught.value.message.count("SHA256:") == 2
        assert caught.value.exit_code == 2
        assert "publickey" not in (tmp_path / "sshd" / "sshd.log").read_text()
        assert pins.forget(POD)
        async with shell(other, pins, tmp_path / "s"):
            assert pins.get(POD) is not None


@needs_sshd
@pytest.mark.process
async def test_a_server_with_several_keys_shows_the_pinned_one(tmp_path: Path, pins: HostKeys) -> None:
    rsa = asyncssh.generate_private_key("ssh-rsa")
    (tmp_path / "rsa").write_bytes(rsa.export_private_key())
    (tmp_path / "rsa").chmod(0o600)
    pins.pin(POD, rsa.export_public_key().decode())
    with sshd(tmp_path / "sshd", lines=(f"HostKey {tmp_path / 'rsa'}",)) as server:
        async with shell(server, pins, tmp_path / "s"):
            pass


@needs_sshd
@pytest.mark.process
async def test_a_key_of_another_kind_is_another_key(tmp_path: Path, pins: HostKeys) -> None:
    pins.pin(POD, asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode())
    with sshd(tmp_path / "sshd") as server, pytest.raises(HostKeyChanged, match=r"SHA256:.*SHA256:"):
        await shell(server, pins, tmp_path / "s").__aenter__()


@needs_sshd
@pytest.mark.process
async def test_a_key_that_it_does_not_take_pins_nothing(server: Sshd, pins: HostKeys, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    with pytest.raises(SshRefused, match="does not take our SSH key") as caught:
        await PodShell(POD, server.address, pins, Identity(tmp_path / "stranger")).__aenter__()
    assert "passerelle init" in caught.value.remedy
    assert pins.get(POD) is None


async def test_runpods_proxy_is_known_by_its_word(tmp_path: Path, pins: HostKeys) -> None:
    async with proxy(tmp_path) as server, shell(server, pins, tmp_path / "s") as pod:
        with pytest.raises(NoShell, match="it refuses commands") as caught:
            await pod.ask({"cmd": "status"})
    assert "22/tcp" in caught.value.remedy
    assert caught.value.exit_code == 3


async def test_the_silent_success_is_no_success(tmp_path: Path, pins: HostKeys) -> None:
    """It echoes the command, the question of the challenge in it, and exits 0."""
    async with proxy(tmp_path, silent=True) as server, shell(server, pins, tmp_path / "s") as pod:
        with pytest.raises(NoShell, match="it ran our command, and did not"):
            await pod.ask({"cmd": "restart", "service": "engine"})


async def test_the_proxys_address_is_not_even_tried(pins: HostKeys) -> None:
    with pytest.raises(NoShell, match="runs no commands"):
        await PodShell(POD, SshAddress("ssh.runpod.io", 22, "pod-6441103b"), pins).__aenter__()


async def test_nobody_there(pins: HostKeys) -> None:
    with pytest.raises(SshSilent) as caught:
        await PodShell(POD, SshAddress("127.0.0.1", free_port(), "root"), pins).__aenter__()
    assert caught.value.exit_code == 3


async def test_something_else_there(pins: HostKeys, tmp_path: Path) -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SshSilent):
            await PodShell(POD, SshAddress("127.0.0.1", port, "root"), pins).__aenter__()


async def test_a_server_that_never_speaks(pins: HostKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "CONNECT_S", 0.2)
    monkeypatch.setattr(ssh, "LOGIN_S", 0.2)

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SshSilent, match="did not answer in time"):
            await PodShell(POD, SshAddress("127.0.0.1", port, "root"), pins).__aenter__()


@pytest.mark.parametrize("kind", ["missing", "encrypted", "garbage"])
async def test_a_key_file_that_cannot_be_used(kind: str, pins: HostKeys, tmp_path: Path) -> None:
    path = tmp_path / "id"
    if kind == "encrypted":
        path.write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key("pkcs8-pem", passphrase="x"))
    if kind == "garbage":
        path.write_text("not a key")
    async with proxy(tmp_path) as server:
        with pytest.raises(PasserelleError) as caught:
            await PodShell(POD, server.address, pins, Identity(path)).__aenter__()
    assert type(caught.value) is SshRefused
    assert str(path) in caught.value.message


@needs_sshd
@pytest.mark.process
async def test_a_key_in_an_agent(server: Sshd, pins: HostKeys, tmp_path: Path) -> None:
    with ssh_agent(tmp_path / "agent2", server.key) as agent:
        async with PodShell(POD, server.address, pins, Identity(agent=agent)):
            assert pins.get(POD) is not None
