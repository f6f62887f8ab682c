"""`passerelle config check | plan | history` and `pod build`."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from control.cli import run
from control.draft import stamped
from tests.control.publishing_pod import POD, Cli, stopped_pod, text

BUILT_IN = ["check", "edit", "history", "plan", "publish", "rollback"]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    for name in ("RUNPOD_API_KEY", "HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    stopped_pod(tmp_path)
    return Cli(tmp_path, capsys)


@pytest.mark.parametrize("verb", BUILT_IN)
def test_every_verb_has_examples(cli: Cli, verb: str) -> None:
    said = cli.good("config", verb, "--help")
    assert f"passerelle config {verb}" in said
    assert f"passerelle config {verb}" in cli.good("config", "--help")


def test_check_names_file_and_line(cli: Cli) -> None:
    assert "good (serial 0, model tiny)" in cli.good("config", "check", cli.file(text()))
    assert cli.values("config", "check", cli.file(text())) == {"ok": True, "serial": 0, "model": "tiny"}
    code, out, err = cli("config", "check", cli.file(text().replace("images", "imagse")))
    assert (code, out) == (64, "")
    assert "my.toml" in err
    assert "line 4" in err
    assert 'did you mean "images"' in err
    code, _, err = cli("config", "check", str(cli.home / "none.toml"))
    assert code == 64
    assert "none.toml" in err
    assert "give the path of a pod.toml" in err


@pytest.mark.parametrize(
    ("change", "code", "action"),
    [
        (("# mine", "# ours"), 0, "nothing"),
        (("# mine", "[bridge]\nping_seconds = 20\n"), 0, "reload bridge"),
        (("images = 4", "images = 8"), 1, "restart engine"),
    ],
)
def test_plan_says_what_would_restart_by_its_exit_code(
    cli: Cli, change: tuple[str, str], code: int, action: str
) -> None:
    cli.good("config", "publish", cli.file(text()), "--pod", POD)
    file = cli.file(text().replace(*change))
    assert run(["config", "plan", file, "--pod", POD], None) == code
    said = cli.capsys.readouterr().out
    assert f"plan: {action}; serial 2" in said
    assert "compared with what is published" in said
    assert run(["config", "plan", file, "--pod", POD, "--json"], None) == code
    values = json.loads(cli.capsys.readouterr().out)
    assert (values["action"], values["serial"], values["live"]) == (action, 2, None)
    assert len(json.loads(cli.good("config", "history", "--pod", POD, "--json"))) == 1


def test_new_code_needs_a_new_pod(cli: Cli) -> None:
    cli.hub.joinpath("pod.toml").write_text(stamped(text(), "x", 3, "a" * 64))
    assert run(["config", "plan", cli.file(text()), "--pod", POD, "--code"], None) == 2
    assert "needs a new pod" in cli.capsys.readouterr().out


def test_a_store_and_a_pod_that_are_none(cli: Cli) -> None:
    file = cli.file(text())
    code, _, err = cli("config", "plan", file, "--pod", POD, "--hub", "https://example.org")
    assert code == 64
    assert "hf://datasets/owner/name" in err
    code, _, err = cli("config", "plan", file, "--pod", POD, "--hub", f"dir://{cli.home}/nowhere")
    assert code == 2
    assert "there is no folder" in err
    code, out, _ = cli("config", "plan", file)
    assert code == 1
    assert "what the pod runs is not known (no pod runs)" in out, "the only pod is meant, though it is stopped"


def test_history(cli: Cli) -> None:
    assert cli.good("config", "history", "--pod", POD) == ""
    for images in (4, 8, 2):
        cli.good("config", "publish", cli.file(text(images)), "--pod", POD)
    lines = cli.good("config", "history", "--pod", POD).splitlines()
    assert [line.split("operator")[1].strip() for line in lines] == [
        "serial 3: images = 2",
        "serial 2: images = 8",
        "serial 1",
    ]
    assert len(cli.good("config", "history", "--pod", POD, "--limit", "1").splitlines()) == 1


def test_build_makes_a_program_and_says_its_hash(cli: Cli) -> None:
    out = cli.home / "made" / "p.pyz"
    values = cli.values("pod", "build", "-o", str(out))
    assert values["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert values["bytes"] == out.stat().st_size
    assert str(values["sha256"]) in cli.good("pod", "build", "-o", str(out))
    assert "passerelle pod build" in cli.good("pod", "build", "--help")


@pytest.mark.process
def test_what_was_built_runs(cli: Cli) -> None:
    out = cli.home / "p.pyz"
    cli.good("pod", "build", "-o", str(out))
    done = subprocess.run([sys.executable, "-I", "-S", str(out), "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
