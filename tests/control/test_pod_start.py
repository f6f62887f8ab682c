"""What a pod runs first: it runs what was published and signed, or what was good before, and never anything else."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import msgspec
import pytest

from bootstrap.report import Status
from control import hub as stores
from control import launch_args, pod_start, ssh_keys, supervisor, zipapp
from control.draft import Code, sealed, stamped
from control.errors import Unreachable
from control.hostkeys import HostKeys
from control.hub import HfAddress
from control.hub_hf import HfStore
from control.local.processes import free_port
from control.local.provider import SIMULATOR
from control.models import PodId
from control.publish import Publisher
from control.settings import Identity
from control.ssh import PodShell
from tests.control.publishing import OPERATOR, published, signed
from tests.control.sshd import needs_sshd, wrapped_sshd
from tests.doubles.hub import HubDouble
from tests.doubles.hub_state import Token

REPO = "datasets/alice/pods"


class Ran(Exception):
    """The program that it became."""


class Waited(Exception):
    """It gave up for now and would look again."""


class Pod:
    """pod_start.main in this process, its execv and its sleeps watched."""

    def __init__(self, hub: HubDouble, state: Path, **env: str) -> None:
        self.env = {
            "PASSERELLE_HUB": "hf://datasets/alice/pods",
            "PASSERELLE_OPERATOR_TOKEN": OPERATOR,
            "PASSERELLE_STATE": str(state),
            "HF_ENDPOINT": hub.url,
            "HF_TOKEN": "hf_reader",
        } | env
        self.program = state / "start" / "passerelle.pyz"
        self.waits: list[float] = []

    def boot(self, looks: int = 1) -> str:
        """What the code that it becomes prints. Raises Waited after so many looks that found nothing."""

        def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            if len(self.waits) >= looks:
                raise Waited

        def become(program: str, argv: list[str]) -> None:
            assert program == sys.executable
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
            raise Ran(done.stdout.strip())

        with pytest.raises(Ran) as ran:
            pod_start.main(self.env, sleep, become)
        return str(ran.value)


@pytest.fixture(autouse=True)
def own_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.pod_start.signal.signal", lambda *_: None)


def test_it_knows_the_names_that_are_published() -> None:
    assert pod_start.NAMES == (stores.CONFIG, stores.SIGNATURE, stores.CODE)


def test_it_runs_what_is_published(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(1, "print('one')"))
    assert Pod(hub, tmp_path).boot() == "one"
    hub.seed(REPO, published(2, "print('two')"))
    assert Pod(hub, tmp_path).boot() == "two"


def test_a_folder_of_a_repository(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed("alice/m", {f"a40/{name}": data for name, data in published(1, "print('one')").items()}, private=False)
    assert Pod(hub, tmp_path, PASSERELLE_HUB="hf://alice/m/a40", HF_TOKEN="").boot() == "one"


def test_the_three_files_are_of_one_commit(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(1, "print('one')"))
    hub.holdings.lag_reads = 1
    hub.seed(REPO, published(2, "print('two')"))
    assert Pod(hub, tmp_path).boot() == "one"


def test_a_file_of_the_large_store_is_fetched_without_the_token(hub: HubDouble, tmp_path: Path) -> None:
    files = published(1, "print('one')")
    hub.seed(REPO, files)
    repo = hub.holdings.repos["dataset", "alice/pods"]
    code = files["passerelle.pyz.b64"]
    assert code is not None
    hub.holdings.large[hashlib.sha256(code).hexdigest()] = code
    repo.commits[-1] = replace(repo.head, large=frozenset({"passerelle.pyz.b64"}))
    assert Pod(hub, tmp_path).boot() == "one"
    assert ("GET", 200) in [(method, status) for method, target, status in hub.requests if "/_large/" in target]


Spoil = Callable[[dict[str, bytes | None]], None]


def unsigned(files: dict[str, bytes | None]) -> None:
    files["pod.toml.sig"] = b""


def of_another_pod(files: dict[str, bytes | None]) -> None:
    files["pod.toml.sig"] = signed(files["pod.toml"] or b"", "another pod's operator token")


def altered(files: dict[str, bytes | None]) -> None:
    files["pod.toml"] = (files["pod.toml"] or b"") + b"\n"


def other_code(files: dict[str, bytes | None]) -> None:
    files["passerelle.pyz.b64"] = published(9, "print('evil')")["passerelle.pyz.b64"]


def no_code_named(files: dict[str, bytes | None]) -> None:
    config = (files["pod.toml"] or b"").partition(b"[code]")[0]
    files |= {"pod.toml": config, "pod.toml.sig": signed(config)}


def no_toml(files: dict[str, bytes | None]) -> None:
    files |= {"pod.toml": b"\xff\xfe", "pod.toml.sig": signed(b"\xff\xfe")}


def no_base64(files: dict[str, bytes | None]) -> None:
    files["passerelle.pyz.b64"] = b"!"


SPOILED = [unsigned, of_another_pod, altered, other_code, no_code_named, no_toml, no_base64]


@pytest.mark.parametrize("spoil", SPOILED)
def test_what_is_not_good_never_runs(spoil: Spoil, hub: HubDouble, tmp_path: Path) -> None:
    files = published(1, "print('one')")
    spoil(files)
    hub.seed(REPO, files)
    pod = Pod(hub, tmp_path)
    with pytest.raises(Waited):
        pod.boot(looks=3)
    assert not pod.program.exists()


@pytest.mark.parametrize("spoil", SPOILED)
def test_what_was_good_before_runs_instead(spoil: Spoil, hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(1, "print('one')"))
    Pod(hub, tmp_path).boot()
    files = published(2, "print('two')")
    spoil(files)
    hub.seed(REPO, files)
    assert Pod(hub, tmp_path).boot() == "one"


def test_an_older_serial_is_refused(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(5, "print('five')"))
    Pod(hub, tmp_path).boot()
    hub.seed(REPO, published(4, "print('four')"))
    assert Pod(hub, tmp_path).boot() == "five"


def test_what_was_kept_is_checked_too(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(1, "print('one')"))
    Pod(hub, tmp_path).boot()
    (tmp_path / "start" / "passerelle.pyz.b64").write_bytes(b"")
    hub.faults.add("status", times=99, status=503)
    with pytest.raises(Waited):
        Pod(hub, tmp_path).boot(looks=9)


@pytest.mark.parametrize("kind", ["status", "reset", "truncate", "api_window", "commit_quota"])
def test_a_hub_in_trouble_is_asked_again(kind: str, hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(1, "print('one')"))
    hub.faults.add(kind, times=2, status=503)  # type: ignore[arg-type]
    pod = Pod(hub, tmp_path)
    assert pod.boot(looks=3) == "one"
    assert pod.waits == [2, 4]


def test_a_hub_that_stays_away_leaves_what_was_kept(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(1, "print('one')"))
    Pod(hub, tmp_path).boot()
    hub.faults.add("status", times=99, status=502)
    pod = Pod(hub, tmp_path)
    assert pod.boot(looks=9) == "one"
    assert pod.waits == [2, 4, 8, 16, 32]


def test_the_first_start_waits_for_its_publish(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, {})
    pod = Pod(hub, tmp_path)
    with pytest.raises(Waited):
        pod.boot(looks=8)
    assert pod.waits == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_token_that_may_not_read_says_so(hub: HubDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.holdings.tokens["hf_narrow"] = Token("alice", "read", frozenset({"datasets/alice/other"}))
    hub.seed(REPO, published(1, "print('one')"))
    with pytest.raises(Waited):
        Pod(hub, tmp_path, HF_TOKEN="hf_narrow").boot()
    said = capsys.readouterr().out
    assert "Repository not found" in said
    assert "HF_TOKEN allowed to read hf://datasets/alice/pods" in said
    assert "hf_narrow" not in said


@pytest.mark.parametrize("lacking", ["PASSERELLE_HUB", "PASSERELLE_OPERATOR_TOKEN"])
def test_an_environment_without_it_ends_at_once(lacking: str, hub: HubDouble, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=lacking):
        Pod(hub, tmp_path, **{lacking: ""}).boot()


def test_an_address_that_is_none_is_said(hub: HubDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Waited):
        Pod(hub, tmp_path, PASSERELLE_HUB="https://example.org/x").boot()
    assert "hf://datasets/owner/name" in capsys.readouterr().out


def test_no_token_is_sent_where_it_does_not_belong(hub: HubDouble, tmp_path: Path) -> None:
    hub.seed(REPO, published(1, "print('one')"))
    Pod(hub, tmp_path).boot()
    assert all(not re.search("hf_|pas-", request.target) for request in hub.seen)
    assert {request.headers.get("user-agent") for request in hub.seen} == {"passerelle"}


@pytest.mark.process
def test_it_ends_at_once_when_it_is_told_to(hub: HubDouble, tmp_path: Path) -> None:
    env = Pod(hub, tmp_path).env | {"PATH": os.environ["PATH"]}
    argv = [sys.executable, "-c", *launch_args.command()]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "not what is published" in process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=10) == 143


def test_what_the_library_may_raise_is_taken() -> None:
    assert issubclass(http.client.IncompleteRead, http.client.HTTPException)


@pytest.mark.process
async def test_a_pod_from_its_first_line_to_a_later_publish(hub: HubDouble, tmp_path: Path) -> None:
    """The whole way: the real code published by the real client, fetched by the start command, run, published to."""
    hub.seed(REPO, {})
    environ = os.environ | {"HF_ENDPOINT": hub.url}
    text = resources.files("control.local").joinpath("pod.toml").read_text("utf-8")
    made = zipapp.build()
    async with HfStore(HfAddress("dataset", "alice/pods"), "hf_writer", environ) as store:
        first = Publisher(store, OPERATOR, None)
        await first.send((await first.look(text, "pod.toml", Code(made.sha256, made.text))).draft)
        with a_pod(hub, tmp_path) as (socket, process):
            pod = Supervisor(socket)
            status = await until(pod, lambda status: status.engine.state == "serving", process)
            assert (status.serial, status.code, status.source) == (1, made.sha256, "hf://datasets/alice/pods")
            later = Publisher(store, OPERATOR, pod)
            changed = text.replace("ping_seconds = 15", "ping_seconds = 20")
            outlook = await later.look(changed, "pod.toml", None)
            assert outlook.plan.action == "reload bridge"
            commit = await later.send(outlook.draft)
            applied = await later.applied(outlook.draft, outlook.status, 30.0, lambda said: None)
            assert (applied.plan, applied.commit) == ("reload bridge", commit)
    assert process.returncode == 0
    assert not [request.target for request in hub.seen if "pas-" in request.target]


@dataclass
class Supervisor:
    """The pod over its control socket."""

    socket: Path

    async def status(self) -> Status:
        response = await supervisor.ask(self.socket, {"cmd": "status"})
        return msgspec.convert(response["status"], Status)

    async def look(self) -> None:
        await supervisor.ask(self.socket, {"cmd": "apply"})


async def until(pod: Supervisor, holds: Callable[[Status], bool], process: subprocess.Popen[bytes]) -> Status:
    deadline = time.monotonic() + 40.0
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(Unreachable):
            status = await pod.status()
            if holds(status):
                return status
        await asyncio.sleep(0.05)
    raise AssertionError(f"the pod is not there; exit code {process.poll()}: {status}")


DRIVER = """
import os, sys
from control import pod_start
pod_start.main(become=lambda path, argv: os.execv(path, argv + sys.argv[1:]))
"""
"""The start command's program, with words of ours behind those of the supervisor that it becomes."""


@contextlib.contextmanager
def a_pod(hub: HubDouble, state: Path, **more: str) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """The start command's program, and what it becomes, on loopback and with the simulated engine."""
    pod = Pod(hub, state, PASSERELLE_CLIENT_TOKEN="pas-client-0123456789abcdef", PATH=os.environ["PATH"])
    socket = Path(tempfile.mkdtemp(prefix="pas-")) / "s"
    argv = [sys.executable, "-c", DRIVER, "--host", "127.0.0.1", "--port", str(free_port()), "--socket", str(socket)]
    argv += [f"--vllm={word}" for word in (*SIMULATOR, "--sim-load-seconds", "0")]
    out = state / "container.log"
    with out.open("wb") as log, subprocess.Popen(argv, env=pod.env | more, stdout=log, stderr=log) as process:
        try:
            yield socket, process
        finally:
            process.terminate()
            process.wait(timeout=20)
            shutil.rmtree(socket.parent)


@needs_sshd
@pytest.mark.process
async def test_ssh_leads_to_a_pod_whose_bridge_and_engine_are_started_again(hub: HubDouble, tmp_path: Path) -> None:
    """A real sshd, started by the start command with the operator's key, outlives what the supervisor ends."""
    text = resources.files("control.local").joinpath("pod.toml").read_text("utf-8")
    made, line = zipapp.build(), ssh_keys.make_key(tmp_path / "key")
    files = published(1, "")
    files |= sealed(stamped(text, "pod.toml", 1, made.sha256), OPERATOR) | {"passerelle.pyz.b64": made.text}
    hub.seed(REPO, files)
    with (
        wrapped_sshd(tmp_path / "sshd") as server,
        a_pod(hub, tmp_path, PUBLIC_KEY=line, HOME=str(server.home), PATH=server.path) as (socket, process),
    ):
        pod = Supervisor(socket)
        before = await until(pod, lambda status: status.engine.state == "serving", process)
        pid = await asyncio.to_thread(server.wait)
        pins, identity = HostKeys(tmp_path / "home"), Identity(tmp_path / "key")
        async with PodShell(PodId("p1"), server.address, pins, identity, socket=str(socket)) as shell:
            for service in ("engine", "bridge"):
                await shell.ask({"cmd": "restart", "service": service})
            await until(pod, lambda status: started_again(status, before), process)
            assert (await shell.ask({"cmd": "status"}))["ok"] is True, "the session outlived both"
        assert server.wait() == pid
        async with PodShell(PodId("p1"), server.address, pins, identity, socket=str(socket)) as shell:
            assert (await shell.ask({"cmd": "status"}))["ok"] is True
    said = (tmp_path / "container.log").read_text()
    assert "passerelle: SSH: sshd runs\n" in said
    assert OPERATOR not in said
    assert "ssh-ed25519 " in (tmp_path / "ssh_host_ed25519_key.pub").read_text(), "kept with the pod's state"


def started_again(now: Status, before: Status) -> bool:
    return (
        now.engine.state == "serving" == now.bridge.state
        and now.engine.pid != before.engine.pid
        and now.bridge.pid != before.bridge.pid
    )
