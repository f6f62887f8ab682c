"""`passerelle init` and `doctor`, as one types them: what is written, what is asked, and that no secret is shown."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import click
import pytest

from control.cli import run
from control.keys import HUGGING_FACE, RUNPOD, Keys
from control.settings import Settings, load
from tests.doubles.hub import HubDouble

RUNPOD_KEY, TOKEN = "rpa_planted_secret_1", "hf_planted_secret_2"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in (RUNPOD, HUGGING_FACE):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "state"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the operator answers, by a word of the question; everything else is Enter."""
    given: dict[str, str] = {}

    def prompt(question: str, default: str = "", hide_input: bool = False, **more: object) -> str:
        word = next((word for word in given if word in question), None)
        if word is not None and ("key (" in question or "token" in question):
            assert hide_input, question
        return default if word is None else given[word]

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(click, "confirm", lambda question, **more: given.get("confirm") == "y")
    return given


def test_by_options_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub, logs = f"dir://{home}/hub", f"dir://{home}/logs"
    assert run(["init", "--no-input", "--hub", hub, "--log-mirror", logs, "--new-ssh-key"], None) == 0
    out = capsys.readouterr().out
    assert load() == Settings(hub, logs, str(home / "ssh_key"))
    assert stat.S_IMODE((home / "ssh_key").stat().st_mode) == 0o600
    assert (home / "ssh_key.pub").read_text().strip() in out
    assert (home / "hub").is_dir()
    assert run(["init", "--no-input", "--log-mirror", "-"], None) == 0
    assert load() == Settings(hub, None, str(home / "ssh_key")), "the rest stays; - unsets"


def test_it_asks_and_shows_no_secret(
    home: Path,
    answers: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    hub: HubDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    answers |= {
        "RunPod API key": RUNPOD_KEY,
        "Hugging Face token": "hf_writer",
        "configurations": "hf://datasets/alice/pods",
        "pods' logs": "hf://datasets/alice/pod-logs",
        "confirm": "y",
    }
    assert run(["init"], None) == 0
    out, err = capsys.readouterr()
    assert load() == Settings("hf://datasets/alice/pods", "hf://datasets/alice/pod-logs", str(home / "ssh_key"))
    assert (Keys().get(RUNPOD), Keys().get(HUGGING_FACE)) == (RUNPOD_KEY, "hf_writer")
    assert "hf://datasets/alice/pods: ready" in out
    assert ("dataset", "alice/pods") in hub.holdings.repos
    for secret in (RUNPOD_KEY, "hf_writer"):
        assert secret not in out + err


def test_keys_of_the_environment(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUNPOD, RUNPOD_KEY)
    assert run(["init", "--no-input"], None) == 0
    assert "RUNPOD_API_KEY: found in the environment" in capsys.readouterr().out
    assert run(["init", "--no-input", "--keep-keys"], None) == 0
    out, err = capsys.readouterr()
    assert "now kept in the file" in out
    assert RUNPOD_KEY not in out + err
    monkeypatch.delenv(RUNPOD)
    assert Keys().get(RUNPOD) == RUNPOD_KEY


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--hub", "https://huggingface.co/x"], "is no store"),
        (["--hub", "dir:///srv/a", "--log-mirror", "dir:///srv/a"], "another store"),
        (["--ssh-key", "/nowhere/id"], "cannot be used"),
    ],
)
def test_a_mistake_writes_nothing(argv: list[str], words: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--no-input", *argv], None) == 64
    assert words in capsys.readouterr().err
    assert load() == Settings()


@pytest.mark.process
def test_a_hub_that_cannot_be_reached_loses_nothing(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HUGGING_FACE, TOKEN)
    assert run(["init", "--no-input", "--hub", "hf://datasets/alice/pods"], None) == 0
    out, err = capsys.readouterr()
    assert "not made" in err
    assert load().hub == "hf://datasets/alice/pods"
    assert TOKEN not in out + err


def test_a_key_is_never_overwritten(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--no-input", "--new-ssh-key"], None) == 0
    before = (home / "ssh_key").read_bytes()
    assert run(["init", "--no-input", "--new-ssh-key"], None) == 2
    assert (home / "ssh_key").read_bytes() == before


def test_doctor_says_what_to_do_and_no_secret(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUNPOD, RUNPOD_KEY)
    monkeypatch.setenv("RUNPOD_API_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv(HUGGING_FACE, TOKEN)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted")
    assert run(["doctor"], None) == 1
    text = capsys.readouterr()
    assert run(["doctor", "--json"], None) == 1
    told = capsys.readouterr()
    rows = json.loads(told.out)
    assert {row["level"] for row in rows} == {"ok", "warn"}
    assert [row["name"] for row in rows if row["level"] == "warn"] == [
        line.split("  ")[1].strip() for line in text.out.splitlines() if line.startswith("warn")
    ]
    for secret in (RUNPOD_KEY, TOKEN, "sk-ant-planted"):
        assert secret not in text.out + text.err + told.out + told.err


def test_doctor_fails_on_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"], None) == 2
    assert "passerelle init" in capsys.readouterr().out
