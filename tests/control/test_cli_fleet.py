"""`passerelle fleet`, driven as a user would: help, usage, a fleet's whole life, Claude Code pointed at it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from control.cli import run
from control.clock import Clock
from control.fleet.store import Fleets
from control.local.store import Store
from control.models import Account, PodId
from control.runpod.provider import RunPodProvider
from tests.doubles.runpod import KEY, RunPodDouble

FAST = ["--sim=--sim-prefill-tokens-per-s", "--sim=60000"]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def nothing_left(home: Path) -> Iterator[None]:
    yield
    for name in Fleets(home).names():
        run(["fleet", "terminate", name, "--yes"], None)


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_help_has_examples_of_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "--help"], None) == 0
    text = capsys.readouterr().out
    for words in ("fleet up 3", "fleet status", "fleet connect", "fleet stop", "--provider runpod"):
        assert words in text
    for verb in ("up", "list", "status", "connect", "start", "stop", "terminate"):
        assert run(["fleet", verb, "--help"], None) == 0
    assert "Exit code" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["up"], "how many"),
        (["up", "0"], "0"),
        (["up", "1", "--gpu", "a40"], "--gpu is for --provider runpod"),
        (["up", "1", "--provider", "runpod", "--engine", "vllm"], "--engine is for --provider local"),
        (["up", "1", "--name", "../x"], "no name for a fleet"),
        (["status", "../x"], "no name for a fleet"),
    ],
)
def test_usage(argv: list[str], words: str, capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert run(["fleet", *argv], None) == 64
    assert words in capsys.readouterr().err
    assert Fleets(home).names() == ()


def test_no_fleet_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "list"], None) == 0
    assert "passerelle fleet up" in capsys.readouterr().out
    for argv in (["status"], ["stop"], ["start"], ["connect"], ["status", "night"]):
        assert run(["fleet", *argv], None) == 2
        assert "there is no fleet" in capsys.readouterr().err


def test_a_dry_run_makes_nothing(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert run(["fleet", "up", "3", "--dry-run"], None) == 0
    assert "3 embedded pods" in capsys.readouterr().out
    assert Fleets(home).names() == ()
    assert not (home / "pods").exists()


def test_pods_that_are_not_there_leave_no_fleet(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert run(["fleet", "up", "--pod", "local-none"], None) == 2
    assert "no replica could be had" in capsys.readouterr().err
    assert Fleets(home).names() == ()


@pytest.mark.process
def test_rented_replicas_are_the_fleets_from_the_moment_that_they_cost(
    capsys: pytest.CaptureFixture[str], home: Path, nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = iter([Account(50.0, 0.0, 80.0), Account(50.0, 0.0, 80.0), Account(0.1, 0.0, 80.0)])

    async def account(_self: RunPodProvider) -> Account:
        return next(accounts)

    monkeypatch.setattr(RunPodProvider, "account", account)
    with RunPodDouble(Clock()) as double:
        for name, value in (("API_BASE_URL", double.url), ("API_KEY", KEY)):
            monkeypatch.setenv(f"RUNPOD_{name}", value)
        argv = ["fleet", "up", "3", "--provider", "runpod", "--gpu", "a40", "--hub", "hf://datasets/me/pods"]
        assert run([*argv, "--name", "night", "--dry-run"], None) == 0
        assert double.asked("POST", "/v2/pods") == []
        capsys.readouterr()
        assert run([*argv, "--name", "night", "--no-wait", "--json"], None) == 1
        out, err = capsys.readouterr()
        made = json.loads(out)
        assert len(made["replicas"]) == 2, "the third could not be paid for"
        assert len(made["failed"]) == 1
        assert Fleets(home).load("night").replicas == tuple(made["replicas"])
        sent = [seen.body for seen in double.asked("POST", "/v2/pods")]
        assert all(body["name"].startswith("night") for body in sent)
        assert len({body["env"]["PASSERELLE_CLIENT_TOKEN"] for body in sent}) == 2
        assert not [body for body in sent if body["env"]["PASSERELLE_CLIENT_TOKEN"] in out + err]
        assert run(["fleet", "status", "--seconds", "0", "--json"], None) == 2
        snap = printed(capsys)
        assert [row["takes"] for row in snap["replicas"]] == ["waiting", "waiting"]
        assert "no replica serves" in snap["problems"]
        assert run(["fleet", "terminate", "night", "--yes"], None) == 0
        assert [len(double.asked("DELETE", f"/v2/pods/{pod_id}")) for pod_id in made["replicas"]] == [1, 1]


@pytest.mark.process
@pytest.mark.timeout(180)
def test_the_life_of_a_fleet(capsys: pytest.CaptureFixture[str], home: Path, nothing_left: None) -> None:
    assert run(["fleet", "up", "2", "--name", "night", "--json", *FAST], None) == 0
    made = printed(capsys)
    assert (made["name"], made["front"], len(made["replicas"]), made["failed"]) == ("night", True, 2, [])
    assert run(["fleet", "up", "1", "--name", "night"], None) == 64
    assert "fleet start night" in capsys.readouterr().err

    assert run(["fleet", "connect", "--json"], None) == 0
    told = printed(capsys)["set"]
    assert told["ANTHROPIC_BASE_URL"] == made["url"]
    body = {"model": told["ANTHROPIC_MODEL"], "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {told['ANTHROPIC_AUTH_TOKEN']}"}
    answer = httpx.post(f"{made['url']}/v1/messages", json=body, headers=headers, timeout=10, trust_env=False)
    assert answer.json()["type"] == "message"

    assert run(["fleet", "status", "--json"], None) == 0
    snap = printed(capsys)
    assert [row["id"] for row in snap["replicas"]] == made["replicas"]
    assert {row["takes"] for row in snap["replicas"]} == {"serving"}
    assert snap["cost_per_hour"] == pytest.approx(1.48)
    assert run(["fleet", "status", "night"], None) == 0
    assert made["replicas"][0] in capsys.readouterr().out
    assert run(["fleet", "list", "--json"], None) == 0
    assert [row["name"] for row in printed(capsys)] == ["night"]

    supervisor = Store(home).load(PodId(made["replicas"][0])).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    assert run(["fleet", "status", "--seconds", "0"], None) == 1
    capsys.readouterr()

    assert run(["fleet", "stop", "--dry-run"], None) == 0
    assert run(["fleet", "stop"], None) == 0
    assert "2 pods are stopped, verified" in capsys.readouterr().out
    assert run(["fleet", "status"], None) == 0
    assert "STOPPED" in capsys.readouterr().out
    assert run(["fleet", "start", "night", "--json"], None) == 0
    again = printed(capsys)
    assert (again["url"], again["front"], again["failed"]) == (made["url"], True, [])
    assert run(["fleet", "terminate", "night", "--yes"], None) == 0
    assert Fleets(home).names() == ()
    assert list((home / "pods").iterdir()) == []
