"""`passerelle connect`: nothing is printed before a real request was answered, and then it is what a shell reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.cli import run
from tests.control.scripted_pod import CLIENT, OPERATOR, POD, Script, report, scripted_pod

ROOT = Path(__file__).parents[2]
VERB = "import sys; from control.cli import run; sys.exit(run(sys.argv[1:], None))"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pod(home: Path) -> Iterator[Script]:
    with scripted_pod(home) as script:
        yield script


def program(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_words_for_a_shell_after_one_real_request(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect", POD], None) == 0
    out = capsys.readouterr().out
    assert out.startswith("unset ANTHROPIC_API_KEY\n")
    assert f"export ANTHROPIC_AUTH_TOKEN={CLIENT}\n" in out
    assert "export CLAUDE_CODE_MAX_CONTEXT_TOKENS=1000\n" in out
    assert OPERATOR not in out
    _, what, body = pod.asked[-1]
    assert (what, body["model"], body["max_tokens"]) == ("POST /v1/messages", "m", 1)
    assert pod.tokens[-1] == f"Bearer {CLIENT}", "the request that is tried is one that Claude Code will make"


def test_json_for_programs(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect", POD, "--json"], None) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["set"]["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{pod.port}"
    assert "ANTHROPIC_API_KEY" in told["unset"]


def test_what_a_pod_calls_its_model_is_never_a_command_of_our_shell(
    pod: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "m; touch $(echo owned)"
    changed = report()
    changed["engine"] = {**changed["engine"], "models": [name]}
    pod.bridge["GET /pod/report"] = 200, changed
    assert run(["connect", POD], None) == 0
    script = capsys.readouterr().out + '\nprintf %s "$ANTHROPIC_MODEL"'
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True).stdout == name


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (529, {"error": {"message": "draining"}}, 3, "draining"),
        (401, {"error": {"message": "invalid token"}}, 2, "invalid token"),
        (400, {"error": {"message": "no such model"}}, 2, "no such model"),
        (200, {"type": "error"}, 3, "is no message"),
    ],
)
def test_nothing_is_printed_when_the_request_fails(
    pod: Script, status: int, body: object, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.bridge["POST /v1/messages"] = status, body
    assert run(["connect", POD], None) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert CLIENT not in err
    assert run(["connect", POD, "--no-check"], None) == 0


def test_an_engine_that_does_not_serve_yet(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    starting = report()
    starting["engine"] = {**starting["engine"], "models": [], "max_model_len": None, "error": "refused"}
    pod.bridge["GET /pod/report"] = 200, starting
    assert run(["connect", POD, "--wait", "0"], None) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "does not serve yet (refused)" in err


def test_a_projects_settings(pod: Script, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect", POD, "--settings"], None) == 0
    out, err = capsys.readouterr()
    assert out.startswith(".claude/settings.local.json: Claude Code in this project now uses http://127.0.0.1:")
    assert "must not be committed" in err
    written = json.loads((home / ".claude" / "settings.local.json").read_text())
    assert written["env"]["ANTHROPIC_AUTH_TOKEN"] == CLIENT
    assert written["statusLine"]["command"].endswith("statusline")
    assert CLIENT not in out + err


@pytest.mark.process
def test_a_command_takes_over_with_the_variables(pod: Script, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(home, 'echo "$ANTHROPIC_MODEL ${ANTHROPIC_API_KEY-gone} $1 $2"; exit 7', monkeypatch)
    argv = [sys.executable, "-c", VERB, "connect", POD, "--", "claude", "-p", "a b"]
    env = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-planted"}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=ROOT)
    assert done.stdout == "m gone -p a b\n", done.stderr
    assert done.returncode == 7


@pytest.mark.parametrize(
    "argv", [["--"], ["--settings", "f", "--", "claude"], ["--json", "--", "claude"], ["--shell", "csh"]]
)
def test_words_that_make_no_sense(pod: Script, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect", POD, *argv], None) == 64
    assert capsys.readouterr().out == ""


@pytest.mark.process
def test_another_version_of_claude_code_is_said_on_stderr(
    pod: Script, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(home, "echo 2.0.1", monkeypatch)
    assert run(["connect", POD], None) == 0
    assert "older than the tested" in capsys.readouterr().err


@pytest.mark.process
def test_the_status_line_as_claude_code_calls_it() -> None:
    data = Path(__file__).parents[1] / "data" / "claude-code-statusline.jsonl"
    stdin = data.read_bytes().splitlines()[2]
    env = {**os.environ, "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072", "PYTHONIOENCODING": "utf-8"}
    argv = [sys.executable, "-c", VERB, "statusline"]
    done = subprocess.run(argv, input=stdin, capture_output=True, env=env, cwd=ROOT)
    assert done.stdout.decode() == "qwen3-coder  ▓░░░░░░░░░ 13.7k of 131k  10%\n"
