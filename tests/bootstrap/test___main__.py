"""The command line as a shell sees it: exit codes, one line on stderr, and the real bridge beside a scripted engine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bootstrap.__main__ import main
from tests.bootstrap.deadline import wait_for

ENGINE = Path(__file__).parent / "fake_vllm.py"
TOKENS = {"PASSERELLE_CLIENT_TOKEN": "client-token-0123", "PASSERELLE_OPERATOR_TOKEN": "operator-token-4567"}
CONFIG = '[serve]\nmodel = "tiny"\n[models.tiny]\nrepo = "x/tiny"\n'


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "pod.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def run_args(config: Path, *more: str) -> list[str]:
    state = config.parent / "state"
    where = ["--state", str(state), "--socket", str(state / "b.sock")]
    return ["run", "--config", str(config), *where, "--port", "0", *more]


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        ([], 64),
        (["run"], 64),
        (["ctl", "x"], 64),
        (["run", "--config", "a", "--hub", "dir:///b"], 64),
    ],
)
def test_usage(argv: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == code
    shown = capsys.readouterr()
    assert bool(shown.out) == (code == 0)
    assert bool(shown.err) == (code != 0)


@pytest.mark.parametrize("words", [["restart"], ["swap"], ["status", "engine"]])
def test_an_order_without_its_argument_or_with_one_too_many_is_64(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ctl", *words]) == 64
    assert f"ctl {words[0]} " in capsys.readouterr().err


def test_an_unknown_key_is_one_line_and_64(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG.replace("repo", "repos"), encoding="utf-8")
    assert main(run_args(config)) == 64
    line = 'pod.toml line 4: unknown key "repos" in [models.tiny]; did you mean "repo"? (docs/config.md)\n'
    assert capsys.readouterr().err == f"passerelle-bootstrap: {line}"


def test_a_port_in_use_is_one_line_and_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert main(run_args(config, "--port", str(other.getsockname()[1]))) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_tokens_nothing_starts(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PASSERELLE_OPERATOR_TOKEN")
    assert main(run_args(config)) == 64
    assert "must be set" in capsys.readouterr().err


def test_a_state_folder_that_cannot_be_is_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(run_args(config, "--state", str(config))) == 2
    assert "cannot use" in capsys.readouterr().err


def test_ctl_where_nobody_answers_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ctl", "--socket", str(tmp_path / "b.sock"), "status"]) == 3
    assert "no bootstrap answers" in capsys.readouterr().err


@pytest.mark.process
def test_the_real_bridge_and_ctl(config: Path) -> None:
    socket_path = str(config.parent / "state" / "b.sock")

    def ctl(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-P", "-m", "bootstrap", "ctl", "--socket", socket_path, *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60)

    def bridge_serves(restarts: int) -> dict[str, Any] | None:
        asked = ctl("status")
        bridge = json.loads(asked.stdout)["bridge"] if asked.returncode == 0 else {}
        return bridge if (bridge.get("state"), bridge.get("restarts")) == ("serving", restarts) else None

    vllm = [f"--vllm={sys.executable}", f"--vllm={ENGINE}"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "bootstrap", *run_args(config, *vllm)], env=dict(os.environ)
    )
    try:
        first = wait_for(lambda: bridge_serves(0))
        assert first["command"][1:] == ["-P", "-m", "bridge"]
        assert ctl("restart", "bridge").stdout == '{\n  "ok": true\n}\n'
        assert wait_for(lambda: bridge_serves(1))["pid"] != first["pid"]
        tail = subprocess.Popen(
            [sys.executable, "-P", "-m", "bootstrap", "ctl", "--socket", socket_path, "tail"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert tail.stdout is not None
        assert "bootstrap" in tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        tail.communicate(timeout=30)
        assert tail.returncode == 0
        assert ctl("stop-pod").returncode == 0
        assert process.wait(timeout=15) == 0
        assert ctl("status").returncode == 3
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=15)
