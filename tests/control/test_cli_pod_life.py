"""`passerelle pod stop | start | restart | terminate | adopt` on a rented pod, as a user drives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from control.cli import run
from control.keys import Keys
from control.models import PodId
from tests.control.test_cli_pod import double as double
from tests.control.test_cli_pod import home as home
from tests.control.test_cli_pod import rented as rented
from tests.doubles.runpod import RunPodDouble


def test_data_is_lost_only_after_a_yes(
    rented: str, double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    assert run(["pod", "terminate", rented], None) == 130
    assert not double.cloud.pods[rented].terminated
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "y")
    assert run(["pod", "terminate", rented], None) == 0
    assert double.cloud.pods[rented].terminated


def test_a_full_host_says_how_to_go_on(rented: str, double: RunPodDouble, capsys: pytest.CaptureFixture[str]) -> None:
    run(["pod", "stop", rented], None)
    double.cloud.faults.host_full = True
    capsys.readouterr()
    assert run(["pod", "start", rented], None) == 2
    err = capsys.readouterr().err
    assert "not enough free GPUs" in err
    assert f"passerelle pod create --like {rented}" in err


def test_a_pod_of_another_machine_is_taken_over(
    rented: str,
    double: RunPodDouble,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path / "elsewhere"))
    assert run(["pod", "list"], None) == 0
    assert "not ours (mine-" in capsys.readouterr().out
    assert run(["pod", "adopt", rented, "--budget", "3", "--json"], None) == 0
    taken = json.loads(capsys.readouterr().out)
    assert (taken["ours"], taken["budget"]) == (True, 3.0)
    tokens = Keys().tokens(PodId(rented))
    assert tokens is not None
    assert tokens.operator == double.cloud.pods[rented].body["env"]["PASSERELLE_OPERATOR_TOKEN"]


def answer(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: word)


def test_a_restart_asks_first_and_is_a_start_afterwards(
    rented: str, double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pod", "restart", "--dry-run"], None) == 0
    assert capsys.readouterr().out == f'POST /v2/pods/{rented}/action\n{{"action": "restart"}}\n'
    answer(monkeypatch, "n")
    assert run(["pod", "restart", rented], None) == 130
    assert double.asked("POST", f"/v2/pods/{rented}/action") == []
    answer(monkeypatch, "y")
    assert run(["pod", "restart", rented], None) == 0
    assert f"pod {rented} starts again; see it serve: passerelle pod wait {rented}" in capsys.readouterr().out
    assert run(["pod", "restart", "--yes"], None) == 0
    assert [seen.body["action"] for seen in double.asked("POST", f"/v2/pods/{rented}/action")] == ["restart"] * 2
    run(["pod", "stop"], None)
    capsys.readouterr()
    assert run(["pod", "restart", rented, "--yes"], None) == 2
    assert f"passerelle pod start {rented}" in capsys.readouterr().err


def test_a_stop_that_runpod_does_not_take_names_the_other_way(
    rented: str, double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("control.runpod.client.BACKOFF_S", (0.0, 0.0))
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_wrong")
    assert run(["pod", "stop", rented], None) == 2
    err = capsys.readouterr().err
    assert "HTTP 401" in err
    assert "--by-itself" in err
    assert run(["pod", "stop", rented, "--by-itself", "--dry-run"], None) == 0
    assert capsys.readouterr().out == f"would ask {rented} to stop itself\n"
    assert run(["pod", "stop", rented, "--by-itself"], None) == 3
    assert f"pod {rented} cannot be reached" in capsys.readouterr().err
