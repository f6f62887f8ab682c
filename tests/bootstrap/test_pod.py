"""Real processes: the config in force, swaps of both kinds, the ways an engine dies, and when the pod stops itself."""

from __future__ import annotations

import http.server
import itertools
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bootstrap.errors import Problem
from bootstrap.report import Status
from bootstrap.seal import sign
from tests.bootstrap.deadline import wait_for
from tests.bootstrap.running import OPERATOR, Bootstrap, config, gone, publish, running
from tests.doubles.hub import HubDouble

pytestmark = pytest.mark.process


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@contextmanager
def published(tmp_path: Path, store: Path, text: str | None = None, **env: str) -> Iterator[Bootstrap]:
    if text:
        publish(store, text)
    with running(tmp_path, source=f"dir://{store}", **env) as pod:
        yield pod


def awake(path: Path) -> list[tuple[str, str]]:
    """(what, model) of each engine, in order; AssertionError where two were awake at once."""
    now, told = set[str](), []
    for line in path.read_text(encoding="utf-8").splitlines():
        pid, what, model = line.split()
        now = now | {pid} if what == "awake" else now - {pid}
        assert len(now) <= 1, f"two engines awake: {path.read_text(encoding='utf-8')}"
        told.append((what, model))
    return told


def test_without_a_config_it_waits_and_says_so_and_takes_the_first_that_is_signed(tmp_path: Path, store: Path) -> None:
    with published(tmp_path, store) as pod:
        status = pod.once(lambda seen: seen.hub)
        assert (status.serial, status.config_error, status.engine.state) == (None, "there is no config yet", "stopped")
        assert "there is no pod.toml in" in (status.hub or "")
        publish(store, config(3), signature=sign(b"something else", "operator-token-4567"))
        with pytest.raises(Problem, match="refused: its signature does not match"):
            pod.ask(cmd="apply")
        publish(store, config(3))
        assert pod.ask(cmd="apply")["serial"] == 3
        assert pod.up().config_error is None
        assert (pod.state / "pod.toml").read_text(encoding="utf-8") == config(3)


def test_a_publish_is_in_force_without_being_asked_for_and_restarts_what_it_must(tmp_path: Path, store: Path) -> None:
    with published(tmp_path, store, config(3)) as pod:
        before = pod.up()
        publish(store, config(4, more="[bridge]\nmax_streams = 9\n"))
        status = pod.once(lambda seen: seen.serial == 4, 12.0)
        assert status.applied is not None
        assert (status.applied.plan, status.applied.reasons) == (
            "reload bridge",
            ("[bridge] max_streams: 256 -> 9",),
        )
        assert pod.service("bridge", "serving", restarts=1).pid != before.bridge.pid
        assert pod.seen().engine.pid == before.engine.pid
        publish(store, config(5, more="[bridge]\nmax_streams = 9\n[idle]\nstop_after_minutes = 90\n"))
        assert pod.ask(cmd="apply")["applied"]["plan"] == "nothing"
        publish(store, config(6, tricks="core-less"))
        assert pod.ask(cmd="apply")["applied"]["plan"] == "restart engine"
        assert pod.service("engine", "serving", restarts=1).pid != before.engine.pid


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (config(2), "serial 2 is not above 3"),
        (config(3, more="[idle]\nstop_after_minutes = 90\n"), "serial 3 is not above 3"),
        (config(4).replace("repo", "rebo"), 'unknown key "rebo"'),
        (config(4, more=f'[code]\nsha256 = "{"0" * 64}"\n'), "needs a new pod: [code] sha256: (left out) -> 0000"),
    ],
)
def test_what_cannot_be_in_force_is_refused_and_what_runs_is_kept(
    tmp_path: Path, store: Path, text: str, says: str
) -> None:
    with published(tmp_path, store, config(3)) as pod:
        before = pod.up()
        publish(store, text)
        with pytest.raises(Problem) as refused:
            pod.ask(cmd="apply")
        assert says in str(refused.value)
        status = pod.seen()
        assert (status.serial, status.engine.pid, status.bridge.pid) == (3, before.engine.pid, before.bridge.pid)
        assert status.config_error is not None
        assert says in status.config_error
        assert (pod.state / "pod.toml").read_text(encoding="utf-8") == config(3)


def test_the_last_good_config_serves_while_the_store_is_away(tmp_path: Path, store: Path) -> None:
    with published(tmp_path, store, config(3)) as pod:
        pod.up()
        pod.end()
    (store / "pod.toml").unlink()
    with published(tmp_path, store) as pod:
        assert pod.up().serial == 3


def test_a_fatal_engine_is_left_by_a_new_config(tmp_path: Path, store: Path) -> None:
    with published(tmp_path, store, config(3, tricks="die")) as pod:
        pod.service("engine", "fatal", restarts=5)
        assert wait_for(lambda: pod.news() and pod.news()[-1]["state"] == "down")
        publish(store, config(4))
        pod.once(lambda seen: seen.engine.state == "serving", 20.0)


def test_a_worker_that_is_killed_comes_back_and_goes_on(tmp_path: Path, store: Path) -> None:
    with published(tmp_path, store, config(3)) as pod:
        pod.up()
        worker = int(pod.text().split("hub: starting, pid ")[1].split()[0])
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: pod.text().count("hub: starting, pid ") == 2)
        publish(store, config(4))
        assert wait_for(lambda: pod.seen().serial == 4, 12.0)


def test_over_the_hub_a_publish_is_in_force_soon_and_the_log_has_a_last_word(tmp_path: Path, hub: HubDouble) -> None:
    repo, logs = "datasets/alice/pods", "datasets/alice/logs"
    hub.seed(logs, {"README.md": b"logs"})
    mirrored = f'[log]\nmirror = "hf://{logs}"\n'

    def put(text: str) -> str:
        signature = sign(text.encode(), OPERATOR).encode()
        return hub.seed(repo, {"pod.toml": text.encode(), "pod.toml.sig": signature})

    put(config(3, more=mirrored))
    env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_writer", "RUNPOD_POD_ID": "pod123", "RUNPOD_API_KEY": "rpa_01234567"}
    with running(tmp_path, source=f"hf://{repo}", **env) as pod:
        pod.up()
        oid = put(config(4, more=mirrored + "[idle]\nstop_after_minutes = 90\n"))
        status = pod.once(lambda seen: seen.serial == 4, 10.0)
        assert status.applied is not None
        assert status.applied.commit == oid
        wait_for(lambda: hub.files(logs).get("etat/pod123.log"))
        pod.end()
    last = hub.files(logs)["etat/pod123.log"].decode()
    assert "bootstrap INFO stopping" in last
    assert "bridge: stopped" in last
    assert "hf_writer" not in last


@pytest.mark.parametrize("strategy", ["restart", "sleep"])
def test_a_swap_there_and_back(tmp_path: Path, store: Path, strategy: str) -> None:
    log = tmp_path / "awake"
    with published(tmp_path, store, config(3, strategy=strategy), AWAKE=str(log)) as pod:
        first = pod.up().engine
        for model in ("other", "tiny", "other"):
            assert pod.ask(cmd="swap", model=model) == {"ok": True}
            status = pod.serves(model)
            status = pod.once(lambda seen: seen.swap and seen.swap.took_s is not None)
        assert status.swap is not None
        assert (status.swap.model, status.swap.came_from, status.swap.error) == ("other", "tiny", None)
        told = [(news["state"], news["model"], bool(news["url"])) for news in pod.news()]
        assert told[-1] == ("serving", "other", True)
        assert ("changing", "other", False) in told
        assert pod.news()[-1]["models"] == {"tiny": ["tiny-name"], "other": ["other-name"]}
        steps = awake(log)
        if strategy == "sleep":
            assert steps[:3] == [("awake", "tiny"), ("asleep", "tiny"), ("awake", "other")]
            assert status.sleepers["tiny"].pid == first.pid
            assert len({line.split()[0] for line in log.read_text().splitlines()}) == 2, "each was started once"
            assert status.swap.eta_s is not None
        else:
            assert steps[:3] == [("awake", "tiny"), ("ended", "tiny"), ("awake", "other")]
        family = pod.family()
        assert pod.end() < 10.0
        assert gone(family)


@pytest.mark.parametrize("strategy", ["restart", "sleep"])
def test_a_swap_that_fails_returns_to_the_model_that_worked(tmp_path: Path, store: Path, strategy: str) -> None:
    with published(tmp_path, store, config(3, tricks="die-other", strategy=strategy), AWAKE=str(tmp_path / "a")) as pod:
        pod.up()
        pod.ask(cmd="swap", model="other")
        status = pod.once(lambda seen: seen.swap and seen.swap.error)
        assert status.swap is not None
        assert "exit code 1" in (status.swap.error or "")
        assert pod.serves("tiny").model == "tiny"
        assert awake(tmp_path / "a")[-1] == ("awake", "tiny")


def test_an_engine_that_cannot_sleep_makes_room_by_ending(tmp_path: Path, store: Path) -> None:
    log = tmp_path / "awake"
    with published(tmp_path, store, config(3, tricks="insomnia", strategy="sleep"), AWAKE=str(log)) as pod:
        pid = pod.up().engine.pid
        pod.ask(cmd="swap", model="other")
        pod.serves("other")
        assert pid is not None
        assert gone({pid})


def test_a_swap_too_soon_says_when(tmp_path: Path, store: Path) -> None:
    text = config(3).replace("dwell_minutes = 0.0001", "dwell_minutes = 10")
    with published(tmp_path, store, text) as pod:
        pod.up()
        pod.ask(cmd="swap", model="tiny")
        pod.ask(cmd="swap", model="other")
        pod.serves("other")
        assert pod.ask(cmd="swap", model="other") == {"ok": True}
        with pytest.raises(Problem, match=r"the last swap was too short ago: in 5\d\d s"):
            pod.ask(cmd="swap", model="tiny")


def test_a_swap_waits_for_the_streams_that_live(tmp_path: Path, store: Path) -> None:
    with published(tmp_path, store, config(3)) as pod:
        pod.up()
        stream = pod.get("/hold")
        stream.readline()
        wait_for(lambda: pod.seen().live == 1)
        pod.ask(cmd="swap", model="other")
        wait_for(lambda: pod.news()[-1]["state"] == "changing")
        assert "swapping to other" in pod.news()[-1]["reason"]
        (pod.hold / "0").touch()
        assert stream.readline() == b"line 0\n"
        assert pod.service("engine", "stopped").command[3] == "other", "the old one still drains"
        (pod.hold / "1").touch()
        assert stream.read() == b"line 1\n"
        pod.serves("other")


def test_an_engine_without_its_core_is_replaced_though_its_api_answers(tmp_path: Path) -> None:
    core = tmp_path / "VLLM::EngineCore"
    core.symlink_to("/bin/sleep")
    with running(tmp_path, "core", CORE=str(core)) as pod:
        pod.up()
        pid = int(pod.text().split("core ")[1].split()[0])
        wait_for(lambda: pod.seen().uptime_s > 4.0)  # it has been seen to live
        os.kill(pid, signal.SIGKILL)
        engine = pod.service("engine", "serving", restarts=1)
        assert engine.last_exit == "its EngineCore process is gone"


def test_idleness_is_counted_down_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "pod.toml").write_text(config(more="[idle]\nstop_after_minutes = 60\n"), encoding="utf-8")
    with running(tmp_path) as pod:
        pod.up()
        status = pod.once(lambda seen: seen.idle.stop_in_s is not None)
        assert 3000.0 < (status.idle.stop_in_s or 0.0) <= 3600.0
        assert pod.ask(cmd="keep") == {"ok": True}


class Provider:
    """RunPod's stop, refused at first."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, dict[str, str]]] = []
        provider = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                provider.asked.append((self.path, body, dict(self.headers)))
                self.send_response(200 if len(provider.asked) > 1 else 500)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def provider() -> Iterator[Provider]:
    it = Provider()
    it.thread.start()
    yield it
    it.server.shutdown()
    it.server.server_close()
    it.thread.join()


def test_a_rented_pod_is_stopped_by_its_provider_which_is_asked_until_it_happens(
    tmp_path: Path, provider: Provider
) -> None:
    env = {"RUNPOD_POD_ID": "pod123", "RUNPOD_API_KEY": "rpa_0123456789", "RUNPOD_API_BASE_URL": provider.url}
    with running(tmp_path, **env) as pod:
        pod.up()
        assert pod.ask(cmd="stop-pod") == {"ok": True}
        wait_for(lambda: len(provider.asked) >= 2)
        path, body, headers = provider.asked[1]
        assert (path, json.loads(body)) == ("/v2/pods/pod123/action", {"action": "stop"})
        assert headers["Authorization"] == "Bearer rpa_0123456789"
        assert headers["User-Agent"].startswith("passerelle/")
        status = pod.seen()
        assert (status.idle.stopping, status.engine.state) == (True, "serving"), "until the machine dies, all goes on"
        assert pod.news()[-1]["state"] == "down"
        assert pod.ask(cmd="keep") == {"ok": True}
        assert wait_for(lambda: pod.news()[-1]["state"] == "serving")


def test_a_rented_pod_without_its_key_cannot_stop_itself_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "pod.toml").write_text(config(more="[idle]\nstop_after_minutes = 60\n"), encoding="utf-8")
    with running(tmp_path, RUNPOD_POD_ID="pod123") as pod:
        status: Status = pod.up()
        assert (status.idle.stop_in_s, status.idle.off) == (None, "RUNPOD_API_KEY is not set in the pod")
        with pytest.raises(Problem, match="stop it from your machine"):
            pod.ask(cmd="stop-pod")


def test_a_watcher_without_news_is_told_nothing_twice(tmp_path: Path) -> None:
    with running(tmp_path) as pod:
        pod.up()
        told: list[dict[str, Any]] = wait_for(lambda: (news := pod.news()) and news[-1]["state"] == "serving" and news)
        plain = [{name: value for name, value in news.items() if name != "eta_s"} for news in told]
        assert all(one != next_one for one, next_one in itertools.pairwise(plain))
