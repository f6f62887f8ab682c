"""Which ways a pod has, and what each can and cannot answer."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from control.errors import Unreachable
from control.hostkeys import HostKeys
from control.hub import open_store
from control.local.store import Store
from control.models import Pod, PodId, PodState, Price, SshAddress
from control.reach import Via
from control.settings import Identity
from control.ways import NO_MIRROR, NO_SSH, File, Hub, Ways
from tests.control.scripted_pod import OPERATOR, scripted_pod
from tests.control.sshd import bootstrap_socket, needs_sshd, sshd
from tests.doubles.hub import HubDouble

POD = Pod(PodId("k3v9x0q2ab"), "runpod", PodState.RUNNING, Price(0.4), "NVIDIA A40", None, 0.0, 0.0, 0.0)
SILENT = "http://127.0.0.1:9"


def log_of(age_s: float) -> bytes:
    at = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat(timespec="milliseconds")
    return f"{at} engine    INFO one\n{at} engine    ERROR two\n".encode()


def ways(pod: Pod, home: Path, **more: object) -> Ways:
    return Ways(pod, OPERATOR, pins=HostKeys(home), identity=Identity(), **more)  # type: ignore[arg-type]


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
async def test_a_hung_bridge_is_restarted_over_a_real_sshd(tmp_path: Path) -> None:
    """The bridge's port is silent, and bootstrap's socket is where a rented pod has it, as sshd sees it."""
    from control.ssh import PodShell
    from control.ways import Ssh

    path = tmp_path / "bootstrap.sock"
    with sshd(tmp_path / "sshd") as server:
        pod = replace(POD, url=SILENT, ssh=server.address)
        identity = Identity(key=server.key)
        async with (
            bootstrap_socket(path, {"restart": '{"ok":true}'}) as asked,
            Ways(pod, OPERATOR, pins=HostKeys(tmp_path), identity=identity) as opened,
        ):
            way = opened.reach.ways[1]
            assert isinstance(way, Ssh)
            shell = PodShell(pod.id, server.address, way.pins, identity, socket=str(path))
            way.shell = await way.stack.enter_async_context(shell)
            answer = await opened.reach.ask({"cmd": "restart", "service": "bridge"})
    assert (answer.via, answer.value, answer.age_s) == (Via.SSH, {"ok": True}, 0.0)
    assert [passed.via for passed in answer.passed] == [Via.BRIDGE]
    assert len(asked) == 1
    assert HostKeys(tmp_path).get(pod.id) is not None


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
