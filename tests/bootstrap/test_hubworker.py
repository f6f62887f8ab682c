"""The worker against the Hub's double and against a folder: what it prints, fetches and sends."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bootstrap.hubworker import Job, Worker, main
from tests.bootstrap.deadline import wait_for
from tests.doubles.hub import HubDouble

REPO, LOGS = "datasets/alice/pods", "datasets/alice/logs"
OLD, NEW = b"serial = 1\n", b"serial = 2\n"


class Desk:
    """A worker in this process, its clock and what it said."""

    def __init__(self, folder: Path, hub: HubDouble, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "pod.log").write_bytes(b"line 1\n")
        self.folder, self.hub, self._capsys, self.now = folder, hub, capsys, 1_000_000.0
        job = Job(f"hf://{REPO}", f"hf://{LOGS}", "POD1", 25.0, str(folder / "pod.log"), str(folder))
        self.job = job
        self.worker = Worker(job)

    def again(self, **changes: Any) -> None:
        """A new worker, as after a crash or with another job."""
        self.worker = Worker(replace(self.job, **changes))

    def round(self, **how: bool) -> list[str]:
        """What one round said."""
        self._capsys.readouterr()
        self.worker.round(**how)
        lines = self._capsys.readouterr().out.splitlines()
        assert lines.pop() == "", "a sign of life"
        return lines

    def incoming(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / "incoming.json").read_bytes())
        return {**told, "body": base64.b64decode(told["body"])}

    def log(self) -> bytes:
        return self.hub.files(LOGS)["etat/POD1.log"]


@pytest.fixture
def desk(tmp_path: Path, hub: HubDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    hub.seed(LOGS, {"README.md": b"logs"})
    desk = Desk(tmp_path, hub, capsys)
    monkeypatch.setattr("bootstrap.hubworker.time.time", lambda: desk.now)
    monkeypatch.setattr("bootstrap.hubworker.time.sleep", lambda seconds: None)
    return desk


def test_a_config_its_signature_and_commit_and_then_304s_that_cost_nothing(desk: Desk) -> None:
    oid = desk.hub.seed(REPO, {"pod.toml": OLD, "pod.toml.sig": b"sig1"})
    assert desk.round() == [f"config new {oid}"]
    assert desk.incoming() == {"body": OLD, "signature": "sig1", "commit": oid}
    assert (desk.round(), desk.round()) == (["config same"], [])
    assert [request[2] for request in desk.hub.requests if "pod.toml" in request[1]] == [200, 200, 304, 304]
    oid = desk.hub.seed(REPO, {"pod.toml": NEW, "pod.toml.sig": b"sig2"})
    assert desk.round() == [f"config new {oid}"]
    assert desk.incoming() == {"body": NEW, "signature": "sig2", "commit": oid}
    assert f"/datasets/alice/pods/resolve/{oid}/pod.toml.sig" in [path for _, path, _ in desk.hub.requests]


def test_a_public_repository_answers_from_elsewhere_and_the_token_does_not_go_there(desk: Desk) -> None:
    oid = desk.hub.seed(REPO, {"pod.toml": OLD}, private=False)
    assert desk.round() == [f"config new {oid}"]
    assert desk.incoming() == {"body": OLD, "signature": None, "commit": oid}
    assert desk.round() == ["config same"]
    cached = [request for request in desk.hub.seen if "resolve-cache" in request.target]
    assert cached
    assert all("authorization" not in request.headers for request in cached)


def test_nothing_there_is_said_once_and_looked_for_again_soon(desk: Desk) -> None:
    desk.hub.seed(REPO, {"other": b""})
    said = desk.round()
    assert len(said) == 1
    assert said[0].startswith(f"config failed: {desk.hub.url.removeprefix('http://')} answers 404")
    assert desk.round() == []
    desk.now += 5.0
    assert desk.round() == []
    assert sum("pod.toml" in path for _, path, _ in desk.hub.requests) == 2
    oid = desk.hub.seed(REPO, {"pod.toml": OLD})
    desk.now += 5.0
    assert desk.round() == [f"config new {oid}"]


@pytest.mark.parametrize(
    ("kind", "more", "says"),
    [
        ("status", {"status": 503}, "answers 503"),
        ("truncate", {}, "config failed:"),
        ("garbage", {}, "pod.toml arrived damaged"),
        ("reset", {}, "config failed:"),
    ],
)
def test_a_bad_answer_is_no_config_and_it_backs_off(desk: Desk, kind: Any, more: dict[str, Any], says: str) -> None:
    desk.hub.seed(REPO, {"pod.toml": OLD})
    desk.hub.faults.add(kind, "GET .*pod.toml", times=2, **more)
    assert says in desk.round()[0]
    assert not (desk.folder / "incoming.json").exists()
    desk.now += 5.0
    desk.round()
    desk.now += 9.9
    assert desk.round() == []
    desk.now += 0.1
    assert desk.round()[0].startswith("config new ")


def test_now_means_now_and_is_answered_even_if_nothing_is_new(desk: Desk) -> None:
    desk.hub.seed(REPO, {"pod.toml": OLD})
    desk.hub.faults.add("status", "GET .*pod.toml", status=500)
    desk.round()
    assert desk.round(urgent=True)[0].startswith("config new ")
    assert desk.round(urgent=True) == ["config same"]


def test_the_log_is_mirrored_by_its_pace_and_only_when_it_changed(desk: Desk) -> None:
    desk.round()
    assert desk.log() == b"line 1\n"
    (desk.folder / "pod.log").write_bytes(b"x" * 250_000 + b"line 2\n")
    desk.now += 24.0
    desk.round()
    assert desk.log() == b"line 1\n"
    desk.now += 1.0
    desk.round()
    assert desk.log() == (b"x" * 250_000 + b"line 2\n")[-200_000:]
    desk.now += 1000.0
    desk.round()
    assert desk.hub.titles(LOGS)[:3] == ["log of POD1", "log of POD1", "seed"]


def test_a_last_word_goes_before_its_time(desk: Desk) -> None:
    desk.hub.seed(REPO, {"pod.toml": OLD})
    desk.round()
    (desk.folder / "pod.log").write_bytes(b"the end\n")
    asked = len(desk.hub.requests)
    desk.round(last=True)
    assert desk.log() == b"the end\n"
    assert [method for method, _, _ in desk.hub.requests[asked:]] == ["POST"], "and nothing else is asked"


def test_a_quota_is_obeyed_even_by_the_next_worker_and_by_a_last_word(desk: Desk) -> None:
    desk.hub.faults.add("commit_quota", "POST .*commit")
    assert "answers 429" in desk.round()[-1]
    desk.again()
    desk.now += 3599.0
    desk.round(urgent=True)
    desk.round(last=True)
    assert sum(method == "POST" for method, _, _ in desk.hub.requests) == 1
    desk.now += 1.0
    desk.round()
    assert desk.log() == b"line 1\n"


def test_somebody_elses_commit_is_waited_for(desk: Desk) -> None:
    desk.hub.faults.add("status", "POST .*commit", times=2, status=412)
    desk.round()
    assert desk.log() == b"line 1\n"


def test_a_commit_that_was_done_though_it_failed_is_not_made_twice_in_a_row(desk: Desk) -> None:
    desk.hub.faults.add("committed_but", "POST .*commit", status=500)
    desk.round()
    desk.round()
    assert desk.hub.titles(LOGS)[:2] == ["log of POD1", "seed"]


def test_a_reader_may_not_mirror_and_still_watches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.hub.seed(REPO, {"pod.toml": OLD})
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    said = desk.round()
    assert said[0].startswith("config new ")
    assert "mirror failed: " in said[1]
    assert "403" in said[1]


def test_folders_are_stores_too(desk: Desk) -> None:
    there, logs = desk.folder / "there", desk.folder / "logs"
    there.mkdir()
    desk.again(config=f"dir://{there}", mirror=f"dir://{logs}")
    assert desk.round() == [f"config failed: there is no pod.toml in {there}"]
    assert (logs / "etat" / "POD1.log").read_bytes() == b"line 1\n"
    (there / "pod.toml").write_bytes(OLD)
    desk.now += 5.0
    assert desk.round()[0].startswith("config new ")
    assert desk.incoming() == {"body": OLD, "signature": None, "commit": None}
    (there / "pod.toml.sig").write_bytes(b"sig")
    assert desk.round()[0].startswith("config new "), "a signature that comes later counts"
    assert desk.round() == ["config same"]


def test_the_provider_is_asked_to_stop_the_pod_again_and_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_BASE_URL", desk.hub.url)
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_x")
    desk.again(config=None, mirror=None, stop="pod1")
    desk.round()
    desk.round()
    desk.now += 20.0
    desk.round()
    stops = [request for request in desk.hub.seen if request.target == "/v2/pods/pod1/action"]
    assert [request.body for request in stops] == [b'{"action":"stop"}'] * 2
    assert stops[0].headers["authorization"] == "Bearer rpa_x"


@contextmanager
def process(job: Job, **env: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-P", "-m", "bootstrap.hubworker", json.dumps(asdict(job))]
    worker = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.process
def test_as_a_process_it_is_woken_by_one_signal_and_says_its_last_word_on_another(
    tmp_path: Path, hub: HubDouble
) -> None:
    hub.seed(LOGS, {"README.md": b"logs"})
    oid = hub.seed(REPO, {"pod.toml": OLD})
    (tmp_path / "pod.log").write_bytes(b"line 1\n")
    job = Job(f"hf://{REPO}", f"hf://{LOGS}", "POD1", 25.0, str(tmp_path / "pod.log"), str(tmp_path))
    with process(job, HF_ENDPOINT=hub.url, HF_TOKEN="hf_writer") as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == f"config new {oid}\n"
        assert worker.stdout.readline() == "\n"
        oid, began = hub.seed(REPO, {"pod.toml": NEW}), time.monotonic()
        worker.send_signal(signal.SIGUSR1)
        assert worker.stdout.readline() == f"config new {oid}\n"
        assert time.monotonic() - began < 4.0
        wait_for(lambda: hub.files(LOGS).get("etat/POD1.log"))
        (tmp_path / "pod.log").write_bytes(b"the end\n")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=15) == 0
    assert hub.files(LOGS)["etat/POD1.log"] == b"the end\n"


def test_a_job_is_one_argument() -> None:
    with pytest.raises(TypeError):
        main(['{"config": null}'])
