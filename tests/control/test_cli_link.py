"""The verbs that steer a pod: by the bridge, else by its supervisor, else what it wrote; and they say which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.cli import run
from control.hostkeys import HostKeys
from control.keys import Keys
from control.models import PodId, Tokens
from control.runpod.life import Record
from control.runpod.store import Store as Rented
from tests.control.scripted_pod import CLIENT, OPERATOR, POD, Script, scripted_pod

OK = {"ok": True}


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
        (["config", "apply"], "/pod/apply", {}),
        (["pod", "restart", "engine"], "/pod/restart", {"service": "engine"}),
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


def test_a_provider_that_is_down_hides_no_pod(
    pod: Script, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """RunPod's API does not answer, and the pod's bridge does."""
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_planted")
    monkeypatch.setenv("RUNPOD_API_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PASSERELLE_RUNPOD_PROXY", f"http://127.0.0.1:{pod.port}")
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    rented = PodId("k3v9x0q2ab")
    Rented(home).save(Record(rented, name="pas-1", made_here=True, ours=True))
    Keys().set_tokens(rented, Tokens(CLIENT, OPERATOR))
    pod.bridge["POST /pod/keep"] = 200, OK
    for named in (rented, "pas-1"):
        assert run(["keep", named], None) == 0
        out, err = capsys.readouterr()
        assert f"{rented} stays" in out
        assert "planted" not in out + err
    assert run(["connect", rented], None) == 0
    assert f"ANTHROPIC_BASE_URL=http://127.0.0.1:{pod.port}" in capsys.readouterr().out
    assert run(["status", rented, "--json"], None) == 1
    snap = json.loads(capsys.readouterr().out)
    assert (snap["verdict"], snap["engine"]["state"], snap["pod"]["id"]) == ("warning", "serving", rented)
    assert "pod-unknown" in [finding["id"] for finding in snap["findings"]]
    pod.bridge["POST /pod/restart"] = 200, OK
    assert run(["pod", "restart", "bridge", rented], None) == 0
    assert f"the bridge of {rented} is being restarted" in capsys.readouterr().out
    assert run(["keep", "another"], None) == 3


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


def test_a_pod_is_asked_to_stop_itself(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    pod.bridge["POST /pod/stop"] = 200, OK
    assert run(["pod", "stop", POD, "--by-itself"], None) == 1, "nobody has seen that it did"
    assert f"pod {POD} was asked to stop itself; not verified: passerelle pod status {POD}" in capsys.readouterr().out
    assert pod.asked == [("bridge", "POST /pod/stop", {})]


def test_the_desktop_by_the_supervisor_where_the_bridge_has_no_word_for_it(
    pod: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.socket["desktop"] = OK
    assert run(["desktop", POD], None) == 0
    assert f"the desktop of {POD} starts" in capsys.readouterr().out
    assert run(["desktop", POD, "--json"], None) == 0
    assert json.loads(capsys.readouterr().out)["via"] == "socket"


def test_link_tries_every_way(pod: Script, capsys: pytest.CaptureFixture[str]) -> None:
    pod.socket["status"] = {"ok": True, "status": {}}
    assert run(["link", POD, "--json"], None) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["via"], row["ok"]) for row in rows] == [
        ("bridge", True),
        ("socket", True),
        ("memory", True),
        ("file", False),
    ]
    pod.bridge.clear()
    assert run(["link", POD], None) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out] == ["none", "ok", "ok", "none"]


def test_boot_says_how_far_it_is_and_remembers(pod: Script, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boot", POD], None) == 0
    assert capsys.readouterr().out.startswith("engine serving 60.0 s, bridge serving 60.0 s, model m, serial 3")
    pod.bridge.clear()
    pod.socket["status"] = "garbage"
    assert run(["boot", POD, "--json"], None) == 1, "what it was is not what it is"
    told = json.loads(capsys.readouterr().out)
    assert (told["via"], told["status"]["serial"]) == ("memory", 3)
    assert [passed["via"] for passed in told["passed"]] == ["bridge", "socket"]
    (home / "pods" / POD / "last_status.json").unlink()
    assert run(["boot", POD], None) == 3
    assert "never seen from here" in capsys.readouterr().err


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
        ["boot", POD, "--json"],
        ["link", POD],
        ["link", POD, "--json"],
    ):
        assert run(argv, None) in (1, 2, 3)
        out, err = capsys.readouterr()
        assert CLIENT not in out + err
        assert OPERATOR not in out + err
        assert out + err
