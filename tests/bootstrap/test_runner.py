"""Real processes: bootstrap with a scripted engine and bridge. Each test ends only what it started."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bootstrap.errors import Problem
from bootstrap.launches import Settings, free_port
from bootstrap.report import SCHEMA, VERSION, Host
from bootstrap.runner import listen, run
from tests.bootstrap.deadline import wait_for
from tests.bootstrap.running import Bootstrap, gone, running

pytestmark = pytest.mark.process

DATA = Path(__file__).parents[1] / "data" / "bootstrap"
SECRETS = ("client-token-0123", "operator-token-4567", "plain-secret-0123", "hf_abcdefghijklmnop")


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Bootstrap]:
    with running(tmp_path) as pod:
        yield pod


def test_both_come_up_and_the_status_is_the_contracts(pod: Bootstrap) -> None:
    status = pod.up()
    assert (status.serial, status.model, status.config_error, status.version) == (7, "tiny", None, VERSION)
    assert status.pid == pod.process.pid
    assert (status.schema, status.applied and status.applied.plan) == (SCHEMA, "start")
    assert status.engine.command[2:5] == ("serve", "tiny", "--host")
    assert "environment: " in pod.text() or "environment:" in pod.text()
    assert "PASSERELLE" not in pod.text()
    assert (pod.state / "b.sock").stat().st_mode & 0o777 == 0o600
    assert pod.get("/").read() == f"{status.bridge.pid}\n".encode()
    newer = pod.status(log_after=status.log_next)
    assert newer is not None
    assert [line.seq for line in newer.log] == list(range(status.log_next + 1, newer.log_next + 1))


def test_a_bridge_that_is_killed_comes_back_and_says_how_it_ended(pod: Bootstrap) -> None:
    pid = pod.up().bridge.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    bridge = pod.service("bridge", "serving", restarts=1)
    assert (bridge.last_exit, bridge.pid != pid) == ("killed by SIGKILL", True)
    assert pod.get("/").read() == f"{bridge.pid}\n".encode()


def test_a_restart_of_the_bridge_loses_no_stream(pod: Bootstrap) -> None:
    old = pod.up().bridge.pid
    stream = pod.get("/hold")
    assert stream.readline() == f"{old}\n".encode()
    assert pod.ask(cmd="restart", service="bridge") == {"ok": True}
    new = pod.service("bridge", "serving", restarts=1)
    assert (new.draining, new.last_exit, new.pid != old) == (1, None, True)
    assert pod.get("/").read() == f"{new.pid}\n".encode()
    (pod.hold / "0").touch()
    assert stream.readline() == b"line 0\n"
    (pod.hold / "1").touch()
    assert stream.read() == b"line 1\n"
    wait_for(lambda: pod.service("bridge", "serving", restarts=1).draining == 0)


def test_an_engine_is_restarted_on_its_port_without_what_it_left(tmp_path: Path) -> None:
    with running(tmp_path, "leave,deaf") as pod:
        old = pod.up().engine
        left = int(pod.text().split("left ")[1].split()[0])
        assert old.pid is not None
        os.kill(old.pid, signal.SIGKILL)
        new = pod.service("engine", "serving", restarts=1)
        assert (new.command, new.last_exit) == (old.command, "killed by SIGKILL")
        assert gone({left})
        assert pod.ask(cmd="restart", service="engine") == {"ok": True}
        assert pod.service("engine", "serving", restarts=2).pid != new.pid  # Deaf to SIGTERM, so killed after 10 s.


def test_an_engine_that_cannot_start_is_given_up_and_the_bridge_is_not(tmp_path: Path) -> None:
    with running(tmp_path, "die") as pod:
        engine = pod.service("engine", "fatal", restarts=5)
        assert engine.last_exit == "exit code 1"
        assert "ValueError: this model cannot be served" in pod.text()
        pod.service("bridge", "serving")


def test_a_bridge_that_hangs_tells_where_is_killed_and_started_again(pod: Bootstrap) -> None:
    pod.up()
    with pytest.raises(ConnectionError):
        pod.get("/hang")
    bridge = pod.service("bridge", "serving", restarts=1)
    assert bridge.last_exit == "did not answer 2 probes in a row (/healthz: no answer in 3 s)"
    assert "in hang_here" in pod.text()
    assert "in hang_here" in (pod.state / "logs" / "pod.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_process_and_no_socket(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "leave") as pod:
        pod.up()
        family = pod.family()
        assert len(family) >= 4
        assert pod.end(number) < 10.0
        assert gone(family)
        assert not (pod.state / "b.sock").exists()


def test_even_what_is_deaf_is_gone_within_ten_seconds(tmp_path: Path) -> None:
    with running(tmp_path, "leave,deaf", DEAF="1") as pod:
        pod.up()
        family = pod.family()
        assert pod.end() < 10.0
        assert gone(family)


def test_stop_pod_answers_and_stops(pod: Bootstrap) -> None:
    pod.up()
    assert pod.ask(cmd="stop-pod") == {"ok": True}
    assert pod.process.wait(timeout=15) == 0


def test_children_do_not_outlive_a_bootstrap_that_is_killed(pod: Bootstrap) -> None:
    status = pod.up()
    pod.process.kill()
    pod.process.wait()
    children = {pid for pid in (status.engine.pid, status.bridge.pid) if pid}
    assert wait_for(lambda: gone(children))


def test_no_secret_is_in_status_or_logs(tmp_path: Path) -> None:
    with running(tmp_path, "leak") as pod:
        pod.up()
        pod.get("/leak").read()
        wait_for(lambda: "tokens [redacted] [redacted]" in pod.text())
        told = str(pod.ask(cmd="status", log_after=0))
        pod.end()
        filed = "".join(path.read_text(encoding="utf-8") for path in (pod.state / "logs").iterdir())
        assert "client token is [redacted] and [redacted]" in told
        assert "client token is [redacted] and [redacted]" in filed
        assert [secret for secret in SECRETS if secret in told or secret in filed] == []


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"cmd": "dance"}, "cmd must be one of status, tail, watch"),
        ({"cmd": "restart"}, r"restart \(service bridge or engine\)"),
        ({"cmd": "status", "log_after": "1"}, "log_after must be a whole number"),
        ({"cmd": "swap", "model": "gpt"}, "there is no model 'gpt'; there is: tiny, other"),
    ],
)
def test_what_makes_no_sense_is_refused(pod: Bootstrap, request_: dict[str, Any], says: str) -> None:
    wait_for(pod.status)
    with pytest.raises(Problem, match=says):
        pod.ask(**request_)


def test_what_nvidia_smi_says_and_how_it_fails(tmp_path: Path) -> None:
    smi, failing = tmp_path / "nvidia-smi", tmp_path / "failing"
    smi.write_text(
        f'#!/bin/sh\n[ -e {failing} ] && echo "GPU is lost" && exit 9\n'
        f'case "$1" in --query*) cat {DATA}/nvidia-smi-h200-query.csv;; *) cat {DATA}/nvidia-smi-h200.txt;; esac\n',
        encoding="utf-8",
    )
    smi.chmod(0o755)
    with running(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}") as pod:

        def host(wanted: Callable[[Host], object]) -> Host:
            def look() -> Host | None:
                status = pod.status()
                return status.host if status and wanted(status.host) else None

            return wait_for(look)

        seen = host(lambda host: host.gpus)
        assert (seen.cuda, seen.driver, seen.gpus[0].name) == ("13.0", "580.159.04", "NVIDIA H200")
        failing.touch()
        seen = host(lambda host: host.gpu_error)
        assert (seen.cuda, seen.gpus) == ("13.0", ())
        assert seen.gpu_error is not None
        assert seen.gpu_error.endswith("nvidia-smi: exit code 9: GPU is lost")


CONFIG = '[serve]\nmodel = "a"\n[models.a]\nrepo = "x/a"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "pod.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def settings(config: Path, **changes: Any) -> Settings:
    state = changes.pop("state", config.parent / "state")
    environ = {"PASSERELLE_CLIENT_TOKEN": "client-secret", "PASSERELLE_OPERATOR_TOKEN": "operator-secret"}
    given = Settings(config, None, state, state / "b.sock", "127.0.0.1", 0, 0, ("vllm",), environ)
    return replace(given, **changes)


def refused(given: Settings) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        run(given)
    return caught.value.exit_code, str(caught.value)


def test_a_port_in_use(config: Path) -> None:
    with listen("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        code, line = refused(settings(config, port=port))
    assert code == 2
    assert line.startswith(f"cannot listen on 127.0.0.1 port {port} (give another --port): Address already in use")


@pytest.mark.parametrize(
    ("host", "port", "code"), [("256.1.1.1", 0, 2), ("127.0.0.1", 70_000, 64), ("192.0.2.1", 0, 2)]
)
def test_an_address_that_is_none(config: Path, host: str, port: int, code: int) -> None:
    assert refused(settings(config, host=host, port=port))[0] == code


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            CONFIG.replace("model =", "modell ="),
            'pod.toml line 2: unknown key "modell" in [serve]; did you mean "model"?',
        ),
        (None, "cannot read the config"),
        (b"\xff", "'utf-8' codec"),
    ],
)
def test_a_config_that_cannot_be_used(config: Path, content: str | bytes | None, says: str) -> None:
    config.unlink()
    if content is not None:
        config.write_bytes(content.encode() if isinstance(content, str) else content)
    code, line = refused(settings(config))
    assert code == 64
    assert says in line


def test_a_state_folder_that_is_a_file(config: Path) -> None:
    code, line = refused(settings(config, state=config, socket=config.parent / "b.sock"))
    assert (code, line) == (2, f"cannot use {config} as the state folder: File exists")


def test_a_control_socket_that_cannot_be_made(config: Path) -> None:
    code, line = refused(settings(config, socket=config / "b.sock"))
    assert code == 2
    assert "cannot make the control socket" in line
    assert (config.parent / "state" / "logs").stat().st_mode & 0o777 == 0o700


def test_the_bridges_socket_is_given_back_when_something_else_is_missing(config: Path) -> None:
    port = free_port()
    refused(settings(config, port=port, state=config, socket=config.parent / "b.sock"))
    listen("127.0.0.1", port).close()


def test_a_second_bootstrap_on_the_same_state_is_refused(pod: Bootstrap, config: Path) -> None:
    wait_for(pod.status)
    code, line = refused(settings(config, socket=pod.state / "b.sock"))
    assert code == 2
    assert "another bootstrap answers" in line
    assert pod.status()
