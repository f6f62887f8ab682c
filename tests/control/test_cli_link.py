"""The verbs that steer a pod: by the bridge, else by its supervisor, else what it wrote; and they say which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.cli import run
from control.hostkeys import HostKeys
from control.local.store import Store
from tests.control.scripted_pod import CLIENT, OPERATOR, POD, Script, log_line, scripted_pod

OK = {"ok": True}
LOG = b"2026-11-29T17:29:24.123+00:00 engine    ERROR CUDA out of memory\n"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def pod(home: Path) -> Iterator[Script]:
    with scripted_pod(home) as script:
        yield script


@pytest.fixture
def silent(home: Path) -> Iterator[Script]:
    """A pod whose bridge does not listen; its supervisor does."""
    with scripted_pod(home, bridge=False) as script:
        yield script


@pytest.mark.parametrize(
    ("argv", "path", "body"),
    [
        (["bridge", "restart"], "/pod/restart", {"service": "bridge"}),
        (["engine", "restart"], "/pod/restart", {"service": "engine"}),
        (["swap", "qwen"], "/pod/swap", {"model": "qwen"}),
        (["drain"], "/pod/drain", {"on": True}),
        (["drain", "--off"], "/pod/drain", {"on": False}),
        (["keep"], "/pod/keep", {}),
    ],
)
def test_each_verb_by_the_bridge(
    pod: Script, argv: list[str], path: str, body: object, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.bridge[f"POST {path}"] = 200, OK
    assert run([*argv, POD], None) == 0
    out, err = capsys.readouterr()
    assert POD in out
    assert "(" not in out, "the usual way is not worth a word"
    assert err == ""
    assert pod.asked == [("bridge", f"POST {path}", body)]
    assert pod.tokens == [f"Bearer {OPERATOR}"]


def test_a_hung_bridge_is_passed_by(silent: Script, capsys: pytest.CaptureFixture[str]) -> None:
    silent.socket["restart"] = OK
    assert run(["bridge", "restart", POD], None) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"the bridge of {POD} is being restarted (through the supervisor's socket (bridge: ")
    assert silent.asked == [("socket", "restart", {"cmd": "restart", "service": "bridge"})]
    assert run(["bridge", "restart", POD, "--json"], None) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["via"], answer["age_s"], answer["answer"]) == ("socket", 0.0, OK)
    assert [passed["via"] for passed in answer["passed"]] == ["bridge"]


@pytest.mark.parametrize("status", [500, 502, 503, 404])
def test_a_bridge_that_answers_for_itself_alone_is_passed_by(
    pod: Script, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.bridge["POST /pod/swap"] = status, {"error": {"message": "the supervisor did not answer within 5 s"}}
    pod.socket["swap"] = OK
    assert run(["swap", "qwen", POD], None) == 0
    assert f"HTTP {status}" in capsys.readouterr().out


def test_a_refusal_is_final(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    pod.bridge["POST /pod/swap"] = 409, {"error": {"message": "the supervisor refused: dwell time, 40 s left"}}
    assert run(["swap", "qwen", POD], None) == 2
    assert "dwell time, 40 s left" in capsys.readouterr().err
    assert [way for way, *_ in pod.asked] == ["bridge"]


def test_nobody_answers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_pod(home, bridge=False):
        pass
    assert run(["engine", "restart", POD], None) == 3
    err = capsys.readouterr().err
    for way in ("bridge: ", "socket: ", "file: it takes no commands"):
        assert way in err
    assert f"passerelle link {POD}" in err


def test_a_drain_is_the_bridges_own(silent: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drain", POD], None) == 3
    assert "passerelle bridge restart" in capsys.readouterr().err
    assert silent.asked == []


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

    monkeypatch.setattr("control.cli_link.asyncio.sleep", next_round)
    assert run(["log", POD, "--follow"], None) == 130
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == ["one", "two", "three"]
    notes = [line for line in err.splitlines() if line.startswith("-- ")]
    assert "supervisor's socket" in notes[0]
    assert "cannot be reached" in notes[1]
    assert notes[2] == "-- bridge"
    assert [request["after"] for way, what, request in pod.asked if what == "tail"] == [1, 2]


def test_link_tries_every_way(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    pod.bridge["GET /pod/log"] = 200, {"log": [], "log_next": 0}
    pod.socket["tail"] = {"ok": True, "log": [], "log_next": 0}
    assert run(["link", POD, "--json"], None) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["via"], row["ok"]) for row in rows] == [("bridge", True), ("socket", True), ("file", False)]
    pod.bridge.clear()
    assert run(["link", POD], None) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in out] == [["none", "bridge"], ["ok", "socket"], ["none", "file"]]


def test_a_pinned_host_key_is_shown_and_forgotten(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q"
    assert run(["ssh-key", "k3v9x0q2ab"], None) == 0
    assert "no host key is pinned" in capsys.readouterr().out
    HostKeys(home).pin(POD, line)
    assert run(["ssh-key", POD], None) == 0
    assert capsys.readouterr().out.startswith("SHA256:")
    assert run(["ssh-key", POD, "--forget"], None) == 0
    assert HostKeys(home).get(POD) is None


def test_no_verb_says_a_token(silent: Script, capsys: pytest.CaptureFixture[str]) -> None:
    silent.socket["restart"] = {"ok": False, "error": "stopping"}
    for argv in (
        ["bridge", "restart", POD],
        ["engine", "restart", POD, "--json"],
        ["swap", "q", POD],
        ["drain", POD],
        ["keep", POD],
        ["log", POD],
        ["link", POD],
        ["link", POD, "--json"],
    ):
        assert run(argv, None) in (1, 2, 3)
        out, err = capsys.readouterr()
        assert CLIENT not in out + err
        assert OPERATOR not in out + err
        assert out + err
