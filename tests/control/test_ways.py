"""Which ways a pod has, and what each can and cannot answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from control import podlink
from control.errors import Unreachable
from control.hostkeys import HostKeys
from control.hub import open_store
from control.local.provider import LocalProvider, Options
from control.local.store import Store
from control.models import Pod, PodId, PodState, Price, SshAddress, Target
from control.podlink import PodLink
from control.reach import Via
from control.settings import Identity
from control.ways import NO_MIRROR, NO_SSH, File, Hub, Ssh, Ways
from tests.control.scripted_pod import OPERATOR, scripted_pod
from tests.control.sshd import needs_sshd, sshd
from tests.doubles.hub import HubDouble

POD = Pod(PodId("k3v9x0q2ab"), "runpod", PodState.RUNNING, Price(0.4), "NVIDIA A40", None, 0.0, 0.0, 0.0)
SILENT = "http://127.0.0.1:9"


def log_of(age_s: float) -> bytes:
    at = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat(timespec="milliseconds")
    return f"{at} engine    INFO one\n{at} engine    ERROR two\n".encode()


def ways(pod: Pod, home: Path, **more: object) -> Ways:
    return Ways(pod, OPERATOR, HostKeys(home), Identity(), **more)  # type: ignore[arg-type]


def test_a_pod_without_anything(tmp_path: Path) -> None:
    assert [(way.via, way.why) for way in ways(POD, tmp_path).missing] == [
        (Via.BRIDGE, "the pod has no address"),
        (Via.SSH, NO_SSH),
        (Via.HUB, NO_MIRROR),
    ]


def test_the_order(tmp_path: Path) -> None:
    rented = replace(POD, url="https://p", ssh=SshAddress("192.0.2.1", 22_022, "root"))
    store = lambda: open_store(f"dir://{tmp_path}", None)  # noqa: E731
    assert [way.via for way in ways(rented, tmp_path, store=store).reach.ways] == [Via.BRIDGE, Via.SSH, Via.HUB]
    here = ways(rented, tmp_path, socket=tmp_path / "s", log_file=tmp_path / "pod.log", store=store)
    assert [way.via for way in here.reach.ways] == [Via.BRIDGE, Via.SOCKET, Via.FILE]


@needs_sshd
@pytest.mark.process
async def test_a_real_pod_whose_bridge_hangs_is_steered_over_a_real_sshd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podlink, "COMMAND_S", 1.0)
    provider = LocalProvider(tmp_path)
    made = await provider.create(Options())
    try:
        tokens, socket = await provider.tokens(made.id), Store(tmp_path).socket(made.id)
        async with PodLink(Target(made.url or "", tokens.operator)) as link:
            bridge = (await link.report()).pid
        with sshd(tmp_path / "sshd") as server:
            identity = Identity(key=server.key)
            async with Ways(replace(made, ssh=server.address), tokens.operator, HostKeys(tmp_path), identity) as opened:
                ssh = opened.reach.ways[1]
                assert isinstance(ssh, Ssh)
                ssh.socket = str(socket)
                assert (await opened.reach.status()).via is Via.BRIDGE
                os.kill(bridge, signal.SIGSTOP)
                answer = await opened.reach.ask({"cmd": "restart", "service": "bridge"})
                assert (answer.via, answer.age_s, [passed.via for passed in answer.passed]) == (
                    Via.SSH,
                    0.0,
                    [Via.BRIDGE],
                )
                assert (await opened.reach.log(None, 5)).value.lines
        assert await _another_bridge(Target(made.url or "", tokens.operator), bridge)
    finally:
        await provider.terminate(made.id)
    assert HostKeys(tmp_path).get(made.id) is None, "the pin went with the pod"


async def _another_bridge(target: Target, before: int) -> bool:
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        with contextlib.suppress(Unreachable):
            async with PodLink(target) as link:
                if (await link.report()).pid != before:
                    return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.process
async def test_a_store_of_the_hub_says_how_old_the_log_is(hub: HubDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.holdings.add_repo("dataset", "alice/pod-logs", True)
    url = "hf://datasets/alice/pod-logs"
    async with open_store(url, "hf_writer") as store:
        await store.publish({f"etat/{POD.id}.log": log_of(40.0)}, (await store.read(())).commit, "log")
    way = Hub(POD.id, lambda: open_store(url, "hf_writer"))
    said = await way.ask({"cmd": "tail", "after": None, "limit": 1})
    assert [line["text"] for line in said.response["log"]] == ["two"]
    assert 39.0 < said.age_s < 60.0
    with pytest.raises(Unreachable, match="takes no commands"):
        await way.ask({"cmd": "restart", "service": "engine"})
    with pytest.raises(Unreachable, match="does not say it"):
        await way.ask({"cmd": "status"})


@pytest.mark.parametrize("url", ["dir:///nowhere/at/all", "dir://{tmp}"])
async def test_no_log_there(tmp_path: Path, url: str) -> None:
    way = Hub(POD.id, lambda: open_store(url.format(tmp=tmp_path), None))
    with pytest.raises(Unreachable):
        await way.ask({"cmd": "tail", "after": None, "limit": 1})


async def test_a_file_is_read_from_where_one_was(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    way = File(path)
    with pytest.raises(Unreachable, match="No such file"):
        await way.ask({"cmd": "tail", "after": None, "limit": 9})
    path.write_bytes(b"")
    with pytest.raises(Unreachable, match="is empty"):
        await way.ask({"cmd": "tail", "after": None, "limit": 9})
    path.write_bytes(log_of(5.0))
    said = await way.ask({"cmd": "tail", "after": 1, "limit": 9})
    assert [line["text"] for line in said.response["log"]] == ["two"]
    assert said.response["log_next"] == 2


async def test_the_supervisor_does_not_drain(tmp_path: Path) -> None:
    with scripted_pod(tmp_path, bridge=False) as script:
        pod = replace(POD, url=SILENT)
        socket = Store(tmp_path).socket(PodId("local-0001"))
        async with ways(pod, tmp_path, socket=socket) as opened:
            with pytest.raises(Unreachable, match="only the bridge can drain itself"):
                await opened.reach.ask({"cmd": "drain", "on": True})
    assert script.asked == []
