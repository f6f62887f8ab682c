"""The command line: what it prints, where, and with which exit code; never a traceback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.cli import run
from control.local.provider import LocalProvider, Options
from control.local.store import Store
from control.models import Pod, Tokens

GOOD = 'serial = 3\n[serve]\nmodel = "m"\n[models.m]\nrepo = "org/m"\nnames = ["m"]\n'


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def pod(home: Path) -> Iterator[Pod]:
    provider = LocalProvider(home)
    made = asyncio.run(provider.create(Options()))
    yield made
    asyncio.run(provider.terminate(made.id))


@pytest.mark.parametrize("argv", [["status"], ["watch"], ["connect"], ["pod", "stop"], ["pod", "logs"]])
def test_no_pod_says_what_to_do_next(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv, None) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "there is no pod" in err
    assert "passerelle pod create" in err
    assert "passerelle demo" in err


@pytest.mark.parametrize(
    "argv",
    [["nonsense"], ["status", "--nonsense"], ["pod", "create", "--port", "0"], ["pod", "create", "--engine", "gpt"]],
)
def test_a_wrong_word_is_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv, None) == 64
    assert "Error:" in capsys.readouterr().err


@pytest.mark.process
def test_a_screen_needs_a_terminal(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", pod.id], None) == 64
    assert "passerelle status --json" in capsys.readouterr().err
    assert run(["demo"], None) == 64
    err = capsys.readouterr().err
    assert "needs a terminal" in err
    assert "--json" in err


def test_a_pod_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "local-dead"], None) == 2
    assert "there is no local pod local-dead" in capsys.readouterr().err
    assert run(["status", "../etc"], None) == 2
    assert "no pod id" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["--help"], ["status", "--help"], ["demo", "--help"], ["pod", "--help"]])
def test_help(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb, None) == 0
    assert "passerelle" in capsys.readouterr().out


def test_the_first_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"], None)
    assert "passerelle demo --headless --seconds 20 --json" in capsys.readouterr().out


def test_config_check_good_and_bad(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "pod.toml"
    file.write_text(GOOD)
    assert run(["config", "check", str(file)], None) == 0
    assert "good (serial 3, model m)" in capsys.readouterr().out
    file.write_text(GOOD.replace("model =", "modle ="))
    assert run(["config", "check", str(file)], None) == 64
    err = capsys.readouterr().err
    assert f"{file}: pod.toml line 3" in err or f"{file}:" in err
    assert "line 3" in err
    assert '"model"' in err
    assert run(["config", "check", str(home / "none.toml")], None) == 64
    assert "cannot read" in capsys.readouterr().err


def test_an_empty_list_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pod", "list"], None) == 0
    assert "no pods" in capsys.readouterr().out
    assert run(["pod", "list", "--json"], None) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_state_folder_that_cannot_be_written_is_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSERELLE_HOME", "/proc/nowhere")
    assert run(["pod", "create"], None) == 2
    err = capsys.readouterr().err
    assert "/proc/nowhere" in err
    assert "Traceback" not in err


@pytest.mark.process
def test_a_session_of_verbs(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json"], None) == 0
    snap = json.loads(capsys.readouterr().out)
    assert (snap["verdict"], snap["pod"]["id"], snap["engine"]["state"]) == ("healthy", pod.id, "serving")
    assert run(["status"], None) == 0
    assert capsys.readouterr().out.startswith("HEALTHY")

    assert run(["connect", "--json"], None) == 0
    env = json.loads(capsys.readouterr().out)["set"]
    assert env["ANTHROPIC_BASE_URL"] == pod.url
    assert env["ANTHROPIC_MODEL"] == "qwen3-coder"
    assert env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "262144"
    assert env["ANTHROPIC_AUTH_TOKEN"].startswith("pas-client-")

    assert run(["pod", "restart", "bridge"], None) == 0
    assert f"the bridge of {pod.id} is being restarted" in capsys.readouterr().out
    assert run(["pod", "restart", "gpu"], None) == 2
    assert "no local pod gpu" in capsys.readouterr().err
    assert run(["pod", "restart", "engine", pod.id, "other"], None) == 64
    assert run(["pod", "restart", "--dry-run"], None) == 0
    assert f"would restart the processes of {pod.id}" in capsys.readouterr().out
    assert run(["pod", "restart", pod.id], None) == 0
    assert f"pod {pod.id} starts again" in capsys.readouterr().out
    assert run(["pod", "wait", pod.id], None) == 0
    capsys.readouterr()

    assert run(["pod", "stop", pod.id], None) == 0
    assert "EXITED, verified" in capsys.readouterr().out
    assert run(["status", pod.id, "--json"], None) == 0
    stopped = json.loads(capsys.readouterr().out)
    assert (stopped["verdict"], stopped["engine"]["running"]) == ("stopped", None)
    assert run(["status"], None) == 2
    assert "passerelle pod start" in capsys.readouterr().err
    assert run(["pod", "start", pod.id], None) == 0
    assert run(["pod", "terminate", pod.id, "--yes"], None) == 0
    assert "is gone" in capsys.readouterr().out


@pytest.mark.process
def test_a_wrong_token_is_said_as_such(pod: Pod, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(home).save_tokens(pod.id, Tokens("pas-client-wrong", "pas-operator-wrong"))
    assert run(["status", "--json"], None) == 2
    snap = json.loads(capsys.readouterr().out)
    assert snap["verdict"] == "critical"
    assert [finding["id"] for finding in snap["findings"]] == ["wrong-token"]
    assert "HTTP 401" in snap["findings"][0]["detail"]
    lights = {light["name"]: light["state"] for light in snap["lights"]}
    assert (lights["port"], lights["bridge"]) == ("good", "bad")


@pytest.mark.process
def test_two_pods_must_be_named(pod: Pod, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = asyncio.run(LocalProvider(home).create(Options()))
    try:
        assert run(["pod", "stop"], None) == 64
        err = capsys.readouterr().err
        assert pod.id in err
        assert second.id in err
    finally:
        asyncio.run(LocalProvider(home).terminate(second.id))
