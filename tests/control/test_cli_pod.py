"""The verbs of `passerelle pod` that look, on a rented pod, as a user drives them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from control import checkup
from control.cli import run
from control.clock import Clock
from control.doctor import Level
from control.keys import Keys
from control.models import Account, PodId
from control.runpod.provider import RunPodProvider
from tests.doubles.runpod import KEY, RunPodDouble

HF = "hf_planted_0003"
RENT = ["pod", "create", "--provider", "runpod", "--gpu", "a40", "--hub", "hf://datasets/me/pods", "--no-wait"]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPodDouble]:
    async def account(self: RunPodProvider) -> Account:
        return Account(None, None, None, "no library")

    monkeypatch.setattr(RunPodProvider, "account", account)
    with RunPodDouble(Clock()) as made:
        times = made.cloud.times
        times.provisioned = times.container = times.running = times.pulled = times.stopping = 0.0
        monkeypatch.setenv("RUNPOD_API_BASE_URL", made.url)
        monkeypatch.setenv("PASSERELLE_RUNPOD_PROXY", "http://127.0.0.1:9/{id}/{port}")
        monkeypatch.setenv("RUNPOD_API_KEY", KEY)
        monkeypatch.setenv("HF_TOKEN", HF)
        yield made
        assert made.violations == []


@pytest.fixture
def rented(double: RunPodDouble, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*RENT, "--json", "--name", "mine"], None) == 0
    made = json.loads(capsys.readouterr().out)
    return str(made["id"])


def test_a_session_of_verbs(rented: str, double: RunPodDouble, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pod", "list"], None) == 0
    out = capsys.readouterr().out
    assert rented in out
    assert "1×a40" in out
    assert run(["pod", "status", "--json"], None) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["ssh"]["user"], found["ours"]) == ("RUNNING", "root", True)
    assert run(["pod", "status", found["name"]], None) == 0, "a pod is found by its name too"
    assert f"ssh    root@127.0.0.1 -p {found['ssh']['port']}" in capsys.readouterr().out
    assert run(["pod", "start", rented], None) == 2
    assert "running already" in capsys.readouterr().err

    assert run(["pod", "stop", "--dry-run"], None) == 0
    assert f'POST /v2/pods/{rented}/action\n{{"action": "stop"}}' in capsys.readouterr().out
    assert run(["pod", "stop"], None) == 0
    assert f"pod {rented} is EXITED, verified" in capsys.readouterr().out
    assert run(["pod", "stop"], None) == 2
    assert f"pod start {rented}" in capsys.readouterr().err
    assert run(["pod", "start", rented, "--json"], None) == 0
    assert json.loads(capsys.readouterr().out)["id"] == rented

    assert run(["pod", "terminate", rented, "--dry-run"], None) == 0
    assert capsys.readouterr().out == f"DELETE /v2/pods/{rented}\n"
    assert run(["pod", "terminate", rented, "--yes"], None) == 0
    assert f"pod {rented} is gone" in capsys.readouterr().out
    assert run(["pod", "list", "--json"], None) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert Keys().tokens(PodId(rented)) is None


def test_a_provider_that_cannot_be_asked_is_said(
    rented: str, double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    double.cloud.faults.retired = True
    assert run(["pod", "list"], None) == 1
    assert "not listed: runpod: " in capsys.readouterr().err
    assert run(["pod", "stop"], None) == 2
    assert "cannot tell which pods there are" in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["gateway", "key"])
def test_what_is_known_is_listed_while_runpod_does_not_say(
    rented: str,
    double: RunPodDouble,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("control.runpod.client.BACKOFF_S", (0.0, 0.0))
    if fault == "key":
        monkeypatch.setenv("RUNPOD_API_KEY", "rpa_wrong")
    else:
        double.cloud.faults.gateway = 99
    assert run(["pod", "list", "--json"], None) == 1, "what it says may not be so any more"
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["id"], found["state"], found["ssh"]["user"]) == (rented, "UNKNOWN", "root")
    assert ("HTTP 401" if fault == "key" else "HTTP 502") in found["note"]
    assert "rpa_wrong" not in found["note"]
    assert run(["pod", "status", rented, "--json"], None) == 3
    assert json.loads(capsys.readouterr().out)["state"] == "UNKNOWN"
    if fault == "key":
        (check,) = [check for check in asyncio.run(checkup.everything()) if check.name == "RUNPOD_API_KEY"]
        assert check.level is Level.FAIL, "pods that are only remembered say nothing for the key"


def test_waiting_is_given_up_when_it_was_asked_for(rented: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pod", "wait", rented, "--within", "0"], None) == 3
    assert "the pod's bridge comes up" in capsys.readouterr().err


def test_the_log_shows_no_secret_that_we_know(
    rented: str, double: RunPodDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    env = double.cloud.pods[rented].body["env"]
    double.cloud.lines = ["one", f"token {env['PASSERELLE_CLIENT_TOKEN']} {HF} {KEY}", "three"]
    assert run(["pod", "logs", rented, "--tail", "2"], None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["token ••• ••• •••", "three"]
    assert run(["pod", "logs", rented, "--folder"], None) == 2
