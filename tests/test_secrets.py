"""Planted secrets are looked for in all that every verb leaves: output, tracebacks, files, and the process list.

A verb that is not in VERBS fails here, so that none is forgotten. `connect` alone prints a secret: the client token.
"""

from __future__ import annotations

import contextlib
import json
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import psutil
import pytest

from control.cli import cli, run
from control.clock import Clock
from control.errors import PasserelleError
from control.keys import Keys
from control.models import Account, PodId
from control.runpod.provider import RunPodProvider
from control.ssh_keys import make_key
from tests.control.scripted_pod import Script, scripted_pod
from tests.doubles.hub import HubDouble
from tests.doubles.runpod import KEY, RunPodDouble

WRITER = "hf_writer"
"""The one token of the Hub's double that may write."""

CONFIG = '[serve]\nmodel = "m"\n[models.m]\nrepo = "org/m"\n'

RENT = "pod create --provider runpod --gpu a40 --hub hf://datasets/alice/pods --no-wait"
"""{pod}, {file}, {home} are filled in."""

VERBS = [
    "status {pod}",
    "status {pod} --json",
    "watch {pod}",
    "demo",
    "pod offers",
    f"{RENT} --config {{file}} --dry-run",
    f"{RENT} --config {{file}}",
    f"{RENT} --gpu b200",
    "pod list --json",
    "pod status {pod}",
    "pod status nosuchpod",
    "pod wait {pod} --within 0",
    "pod logs {pod}",
    "pod adopt {pod}",
    "pod adopt nosuchpod",
    "pod restart bridge {pod}",
    "pod restart {pod} --yes",
    "pod start {pod}",
    "pod start nosuchpod",
    "pod build -o {home}/pod.pyz",
    "cost {pod} --json",
    "cost {pod}",
    "config check {file}",
    "config check {home}/secrets.json",
    "config plan {file} --pod {pod}",
    "config publish {file} --pod {pod} --wait 0",
    "config history --pod {pod}",
    "config rollback --pod {pod} --wait 0",
    "config edit --pod {pod}",
    "config apply {pod}",
    "bridge explain {pod}",
    "bridge restart {pod}",
    "engine restart {pod}",
    "swap other {pod}",
    "drain {pod}",
    "keep {pod}",
    "desktop {pod}",
    "boot {pod} --json",
    "link {pod}",
    "log {pod}",
    "ssh-key {pod}",
    "doctor --json",
    "doctor",
    "init --no-input --keep-keys --hub hf://datasets/alice/pods",
    "statusline",
    "fleet up 2 --provider runpod --gpu a40 --hub hf://datasets/alice/pods --dry-run",
    "fleet list",
    "fleet status",
    "fleet connect",
    "fleet start",
    "fleet stop",
    "fleet terminate nosuchfleet --yes",
    "connect {pod} --wait 0",
    "connect {pod} --wait 0 --json",
    "pod stop {pod} --by-itself",
    "pod stop {pod}",
    "pod terminate {pod} --yes",
]


@dataclass(frozen=True, slots=True)
class Planted:
    """What must be nowhere."""

    key: str
    hub_token: str
    client: str
    operator: str

    def found_in(self, text: str) -> list[str]:
        return [secret for secret in (self.key, self.hub_token, self.client, self.operator) if secret in text]


@dataclass(slots=True)
class Rig:
    pod: str
    home: Path
    file: Path
    double: RunPodDouble
    script: Script
    planted: Planted

    def argv(self, verb: str) -> list[str]:
        return verb.format(pod=self.pod, file=self.file, home=self.home).split()


@pytest.fixture
def rig(
    tmp_path: Path, hub: HubDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Rig]:
    """A rented pod whose bridge is a script, with its configuration in a store of the Hub's double."""

    async def account(self: RunPodProvider) -> Account:
        return Account(None, None, None, "no library")

    monkeypatch.setattr(RunPodProvider, "account", account)
    monkeypatch.setattr("control.runpod.client.BACKOFF_S", (0.0, 0.0))
    home, file = tmp_path / "home", tmp_path / "pod.toml"
    home.mkdir()
    file.write_text(CONFIG)
    monkeypatch.setenv("PASSERELLE_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.delenv("VISUAL", raising=False)
    make_key(home / "ssh_key")
    (home / "settings.toml").write_text(f'ssh_key = "{home}/ssh_key"\nlog_mirror = "hf://datasets/alice/pods/logs"\n')
    with RunPodDouble(Clock()) as double, scripted_pod(tmp_path / "elsewhere") as script:
        times = double.cloud.times
        times.provisioned = times.container = times.running = times.pulled = times.stopping = 0.0
        double.cloud.faults.retry_after = 0
        for name, value in {
            "RUNPOD_API_BASE_URL": double.url,
            "RUNPOD_API_KEY": KEY,
            "PASSERELLE_RUNPOD_PROXY": f"http://127.0.0.1:{script.port}",
            "HF_ENDPOINT": hub.url,
            "HF_TOKEN": WRITER,
        }.items():
            monkeypatch.setenv(name, value)
        assert run([*RENT.split(), "--config", str(file), "--json"], None) == 0
        pod = str(json.loads(capsys.readouterr().out)["id"])
        tokens = Keys().tokens(PodId(pod))
        assert tokens is not None
        double.cloud.lines = [f"a log that says {KEY} {WRITER} {tokens.client} {tokens.operator}"]
        script.bridge |= {f"POST /pod/{verb}": (200, {"ok": True}) for verb in ("restart", "keep", "stop", "apply")}
        script.bridge["POST /pod/swap"] = 409, {"error": {"message": "dwell time"}}
        yield Rig(pod, home, file, double, script, Planted(KEY, WRITER, tokens.client, tokens.operator))


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name, verb in command.commands.items():
            yield from leaves(verb, (*path, name))
    else:
        yield " ".join(path)


def test_no_verb_is_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--version"], None)
    assert [leaf for leaf in leaves(cli) if not any(f"{verb} ".startswith(f"{leaf} ") for verb in VERBS)] == []


TROUBLES = ["none", "gateway", "keys", "bridge"]


@pytest.mark.process
@pytest.mark.parametrize("trouble", TROUBLES)
def test_in_no_output_and_in_no_file(
    trouble: str, rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = rig.planted
    if trouble == "keys":
        planted = Planted("rpa_planted_stranger", "hf_planted_stranger", planted.client, planted.operator)
        monkeypatch.setenv("RUNPOD_API_KEY", planted.key)
        monkeypatch.setenv("HF_TOKEN", planted.hub_token)
    if trouble == "bridge":
        body = {"error": {"message": "no such token here"}}
        rig.script.bridge.clear()
        rig.script.bridge["GET /pod/report"] = 401, body
    for verb in VERBS:
        rig.double.cloud.faults.gateway = 99 if trouble == "gateway" else 0
        code = run(rig.argv(verb), None)
        out, err = capsys.readouterr()
        found = planted.found_in(out + err)
        if verb.startswith("connect"):
            found = [secret for secret in found if secret != planted.client]
        assert found == [], verb
        assert "Traceback" not in err, verb
        assert out + err, f"{verb} ends with {code} and says nothing"
    kept = {"secrets.json", "tokens.json"}
    for file in rig.home.rglob("*"):
        if file.is_file() and file.name not in kept:
            assert planted.found_in(file.read_bytes().decode("utf-8", "replace")) == [], file
    for file in (file for name in kept for file in rig.home.rglob(name)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.process
@pytest.mark.parametrize("trouble", ["gateway", "create_then_500", "retired"])
def test_in_no_traceback(trouble: str, rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """What Python would print of an error that nobody caught: its chain of causes, and each line of code."""
    seen = 0
    for verb in (f"{RENT} --config {{file}}", "pod list", "pod stop {pod}", "cost {pod}", "swap other {pod}"):
        setattr(rig.double.cloud.faults, trouble, 99)
        try:
            cli.main(rig.argv(verb), standalone_mode=False)
        except (PasserelleError, click.ClickException, SystemExit) as error:
            seen += isinstance(error, PasserelleError)
            told = "".join(traceback.format_exception(error)) + repr(error) + repr(getattr(error, "__dict__", ""))
            assert rig.planted.found_in(told) == [], verb
    assert seen, "nothing was raised"
    capsys.readouterr()


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "verb", [f"{RENT} --config {{file}} --env HF_TOKEN", "config publish {file} --pod {pod} --wait 2"]
)
def test_in_no_process_list(verb: str, rig: Rig) -> None:
    """While RunPod makes it wait, the command and all that it started are looked at as any user could."""
    rig.double.cloud.faults.limited, rig.double.cloud.faults.retry_after = 1, 2
    argv = [sys.executable, "-P", "-m", "control", *rig.argv(verb)]
    seen: set[str] = set()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                shown = psutil.Process(process.pid)
                seen |= {" ".join(one.cmdline()) for one in (shown, *shown.children(recursive=True))}
            time.sleep(0.02)
        said = process.communicate()[0]
    assert any("control.hub_worker" in line for line in seen), said
    for pod in rig.double.cloud.pods.values():
        env = pod.body["env"]
        planted = Planted(KEY, WRITER, env["PASSERELLE_CLIENT_TOKEN"], env["PASSERELLE_OPERATOR_TOKEN"])
        assert planted.found_in("\n".join((*seen, said))) == []


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_in_no_command_line_of_an_embedded_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its supervisor, bridge, engine and hub worker run for days where others look."""
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", WRITER)
    assert run(["pod", "create", "--json"], None) == 0
    pod = json.loads(capsys.readouterr().out)["id"]
    try:
        tokens = json.loads((tmp_path / "pods" / pod / "tokens.json").read_text())
        kept = json.loads((tmp_path / "pods" / pod / "pod.json").read_text())
        shown = psutil.Process(kept["supervisor"]["pid"])
        lines = [" ".join(one.cmdline()) for one in (shown, *shown.children(recursive=True))]
        assert len(lines) >= 3
        planted = Planted(KEY, WRITER, tokens["client"], tokens["operator"])
        assert planted.found_in("\n".join(lines)) == []
        logs = "".join(file.read_text() for file in (tmp_path / "pods" / pod / "state" / "logs").glob("*.log"))
        assert planted.found_in(logs) == []
    finally:
        run(["pod", "terminate", pod, "--yes"], None)
