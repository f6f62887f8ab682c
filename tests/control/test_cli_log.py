"""The log by whichever way answers: from the pod, or from what it wrote, and no line twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.cli import run
from control.local.store import Store
from tests.control.scripted_pod import POD, Script, log_line, scripted_pod

LOG = b"2026-11-29T17:29:24.123+00:00 engine    ERROR CUDA out of memory\n"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def pod(home: Path) -> Iterator[Script]:
    with scripted_pod(home) as script:
        yield script


def test_the_log_by_the_bridge(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    kept = [log_line(0, "download"), log_line(1, "weights"), log_line(2, "graphs")]
    pod.bridge["GET /pod/log"] = 200, {"log": kept, "log_next": 2}
    assert run(["log", POD, "-n", "2"], None) == 0
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == ["weights", "graphs"]
    assert err == ""
    assert pod.asked == [("bridge", "GET /pod/log?after=0&limit=5000", None)]
    assert run(["log", POD, "-n", "2", "--json"], None) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["via"], row["text"]) for row in rows] == [("bridge", "weights"), ("bridge", "graphs")]


def test_the_log_of_a_dead_pod_is_what_it_wrote(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_pod(home, bridge=False):
        pass
    path = Store(home).state(POD) / "logs" / "pod.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(LOG)
    assert run(["log", POD], None) == 0
    out, err = capsys.readouterr()
    assert "CUDA out of memory" in out
    assert "-- from the log's file, " in err
    assert "old" in err


def test_following_changes_the_way_and_says_so(
    pod: Script, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bridge, then the socket as the bridge hangs, then nobody, then the bridge again: no line twice."""
    pod.bridge["GET /pod/log"] = 200, {"log": [log_line(1, "one")], "log_next": 1}
    rounds = iter(["socket", "nobody", "bridge", "end"])

    async def next_round(seconds: float) -> None:
        match next(rounds):
            case "socket":
                pod.bridge["GET /pod/log"] = 503, {"error": {"message": "hung"}}
                pod.socket["tail"] = {"ok": True, "log": [log_line(2, "two")], "log_next": 2}
            case "nobody":
                pod.socket["tail"] = "garbage"
            case "bridge":
                pod.bridge["GET /pod/log"] = 200, {"log": [log_line(3, "three")], "log_next": 3}
            case _:
                raise KeyboardInterrupt

    monkeypatch.setattr("control.cli_log.asyncio.sleep", next_round)
    assert run(["log", POD, "--follow"], None) == 130
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == ["one", "two", "three"]
    notes = [line for line in err.splitlines() if line.startswith("-- ")]
    assert "supervisor's socket" in notes[0]
    assert "cannot be reached" in notes[1]
    assert notes[2] == "-- bridge"
    assert [request["after"] for way, what, request in pod.asked if what == "tail"] == [1, 2]
