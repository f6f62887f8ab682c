"""The embedded pod's life on real processes: created, found again, stopped, started anew, gone without a trace."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bootstrap import seal
from control.draft import ConfigRefused, check
from control.errors import NoSuchPod, PortInUse, Refused
from control.hub import CONFIG, SIGNATURE
from control.hub_dir import DirStore
from control.local import processes
from control.local.provider import LocalProvider, Options
from control.local.store import Store
from control.models import PodId, PodState

GOOD = """
serial = 3
[serve]
model = "m"
[models.m]
repo = "org/m"
names = ["m"]
"""


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    made = LocalProvider(tmp_path)
    yield made
    for pod in await made.list():
        await made.terminate(pod.id)


@pytest.mark.process
async def test_the_life_of_a_pod(provider: LocalProvider, tmp_path: Path) -> None:
    pod = await provider.create(Options(price=1.5))
    assert pod.state is PodState.RUNNING
    assert pod.price.per_hour == 1.5
    tokens = await provider.tokens(pod.id)
    assert tokens.client != tokens.operator
    assert stat.S_IMODE((tmp_path / "pods" / pod.id / "tokens.json").stat().st_mode) == 0o600

    elsewhere = LocalProvider(tmp_path)
    assert [found.id for found in await elsewhere.list()] == [pod.id]
    with pytest.raises(Refused, match="running already"):
        await elsewhere.start(pod.id)

    supervisor = Store(tmp_path).load(pod.id).supervisor
    family = processes.family(supervisor)
    assert len(family) >= 3
    await provider.stop(pod.id)
    await provider.stop(pod.id)
    stopped = await provider.wait_exited(pod.id)
    assert stopped.started_at is None
    assert stopped.billed_s > 0
    assert [process for process in family if processes.alive(process)] == []
    await provider.stop(pod.id)

    again = await provider.start(pod.id)
    assert (again.state, again.url) == (PodState.RUNNING, pod.url)
    assert again.billed_s == stopped.billed_s

    await provider.terminate(pod.id)
    await provider.terminate(pod.id)
    assert not (tmp_path / "pods" / pod.id).exists()
    with pytest.raises(NoSuchPod):
        await provider.get(pod.id)


@pytest.mark.process
async def test_a_supervisor_that_was_killed_is_exited_and_its_engine_and_bridge_end(
    provider: LocalProvider, tmp_path: Path
) -> None:
    pod = await provider.create(Options())
    supervisor = Store(tmp_path).load(pod.id).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    ended = await provider.wait_exited(pod.id)
    assert ended.state is PodState.EXITED


@pytest.mark.process
async def test_a_pod_that_cannot_start_says_why_and_is_not_forgotten(
    provider: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(self: Store, pod_id: PodId) -> Path:
        return Path("/proc/no/such/place.sock")

    monkeypatch.setattr(Store, "socket", nowhere)
    with pytest.raises(Refused, match="supervisor ended with exit code"):
        await provider.create(Options())
    assert await provider.list() == ()


async def test_a_port_in_use_is_refused_before_anything_starts(provider: LocalProvider) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port}") as caught:
            await provider.create(Options(port=port))
    assert "--port" in caught.value.remedy
    assert await provider.list() == ()


async def test_a_config_with_an_unknown_key_names_file_line_and_nearest_key(
    provider: LocalProvider, tmp_path: Path
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(GOOD.replace('model = "m"\n', 'model = "m"\ncontxt = 5\n'))
    with pytest.raises(ConfigRefused) as caught:
        await provider.create(Options(config=config))
    assert str(config) in caught.value.message
    assert "line 5" in caught.value.message
    assert '"context"' in caught.value.message
    assert caught.value.exit_code == 64
    assert await provider.list() == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(engine="vllm", vllm="/no/such/vllm"), "no vllm program at /no/such/vllm"),
        (Options(config=Path("/no/such/pod.toml")), "cannot read /no/such/pod.toml"),
    ],
)
async def test_what_is_not_there_is_said(provider: LocalProvider, options: Options, words: str) -> None:
    with pytest.raises(Refused, match=words):
        await provider.create(options)
    assert await provider.list() == ()


async def test_an_embedded_pod_elsewhere_than_on_linux_is_refused_in_words(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(Refused, match="needs Linux, and this is win32"):
        await provider.create(Options())
    monkeypatch.undo()
    assert await provider.list() == ()


async def test_a_real_engine_needs_a_config(provider: LocalProvider) -> None:
    with pytest.raises(Refused, match="needs to know its model"):
        await provider.create(Options(engine="vllm", vllm="/bin/true"))


def test_a_good_config_is_read() -> None:
    assert check(GOOD, "x").serial == 3


@pytest.mark.process
async def test_what_a_pod_is_created_with_is_a_signed_version(provider: LocalProvider, tmp_path: Path) -> None:
    pod = await provider.create(Options())
    token = (await provider.tokens(pod.id)).operator
    store = DirStore(str(Store(tmp_path).hub(pod.id)))
    found = await store.read((CONFIG, SIGNATURE))
    assert seal.check(found.files[CONFIG], found.files[SIGNATURE].decode(), token) is None
    assert [version.title for version in await store.history(5)] == ["as it was created"]
