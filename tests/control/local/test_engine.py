"""The simulated engine as a real process: start, streams, clients that leave, signals, and how it dies."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from control.local.engine import main
from tests.control.local.simulated import chunks, scripted

pytestmark = pytest.mark.process
DEADLINE_S = 20.0
CHAT = "/v1/chat/completions"


@dataclass(slots=True)
class Process:
    """One engine that this test started, its log, and a client of it."""

    popen: subprocess.Popen[bytes]
    log: Path
    http: httpx.Client

    def lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()

    def metric(self, name: str) -> float:
        text = self.http.get("/metrics").text
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name}{{"))

    def busy(self) -> tuple[int, int, int]:
        """Running, waiting, blocks held."""
        state = self.http.get("/sim/state").json()
        return len(state["running"]), len(state["waiting"]), state["kv"]["used"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


@contextmanager
def started(log: Path, *flags: str) -> Iterator[Process]:
    port = free_port()
    argv = [sys.executable, "-P", "-m", "control.local.engine", "serve", "tiny", "--port", str(port)]
    argv += ["--served-model-name", "tiny-qwen", "--max-model-len", "65536", "--sim-load-seconds", "0.1", *flags]
    with log.open("wb") as out, subprocess.Popen(argv, stderr=out) as popen:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE_S) as http:
                yield Process(popen, log, http)
        finally:
            popen.kill()


def healthy(process: Process) -> bool:
    try:
        return process.http.get("/health").status_code == 200
    except httpx.TransportError:
        assert process.popen.poll() is None, process.lines()
        return False


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Process]:
    flags = ["--enable-prompt-tokens-details", "--num-gpu-blocks-override", "4097", "--trust-remote-code"]
    flags += ["--sim-prefill-tokens-per-s", "100000"]
    with started(tmp_path / "log", *flags) as process:
        eventually(lambda: healthy(process))
        yield process


def body(script: object, text: str = "go", **more: object) -> dict[str, Any]:
    return {"model": "tiny-qwen", "messages": scripted(script, text), "stream": True} | more


def test_it_says_what_it_is_and_streams_in_time(engine: Process) -> None:
    first = engine.lines()[0]
    assert "WARNING" in first
    assert "Simulated vLLM engine, version 0.32.0+simulated" in first
    log = "\n".join(engine.lines())
    assert "Ignored, the simulated engine has no such part: --trust-remote-code" in log
    assert "GPU KV cache size: 65,552 tokens" in log
    assert "Maximum concurrency for 65,536 tokens per request: 1.00x" in log
    began = time.monotonic()
    got = engine.http.post(CHAT, json=body({"text": "x" * 400}, stream_options={"include_usage": True}))
    took = time.monotonic() - began
    records = chunks(got.text)
    assert "".join(r["choices"][0]["delta"].get("content") or "" for r in records[:-2]) == "x" * 400
    assert records[-2]["usage"]["completion_tokens"] == 102  # 100 of text, the end of thinking, the end of the turn
    assert took > 100 * 0.004936  # decode takes its time
    assert engine.metric("vllm:generation_tokens_total") == 102
    assert engine.metric("vllm:prompt_tokens_total") == records[-2]["usage"]["prompt_tokens"]
    assert any('"POST /v1/chat/completions HTTP/1.1" 200' in line for line in engine.lines())


def test_a_client_that_leaves_is_freed_in_decode_and_in_waiting(engine: Process) -> None:
    # Two prompts of 40k tokens do not fit in 65k together: the second waits by capacity.
    hold, wait = (body({"text": 9000}, letter * 160_000) for letter in "ab")
    with engine.http.stream("POST", CHAT, json=hold) as decoding:
        raw = decoding.iter_raw()  # a generator that is dropped would close the connection
        assert next(raw)
        with engine.http.stream("POST", CHAT, json=wait) as waiting:
            assert waiting.status_code == 200
            eventually(lambda: engine.busy()[:2] == (1, 1))
            assert engine.metric("vllm:num_requests_waiting") == 1
            assert 0.5 < engine.metric("vllm:kv_cache_usage_perc") < 0.8
        eventually(lambda: engine.busy()[:2] == (1, 0))
    eventually(lambda: engine.busy() == (0, 0, 0))


def test_sigterm_ends_streams_and_exits_with_0(engine: Process) -> None:
    with engine.http.stream("POST", CHAT, json=body({"text": 9000})) as stream:
        raw = stream.iter_raw()
        next(raw)
        engine.popen.send_signal(signal.SIGTERM)
        rest = b"".join(raw).decode()
    assert chunks(rest)[-2:] == [
        {
            "error": {
                "message": "The server is shutting down.",
                "type": "Service Unavailable",
                "param": None,
                "code": 503,
            }
        },
        "[DONE]",
    ]
    assert engine.popen.wait(DEADLINE_S) == 0


def test_death_is_logged_answered_with_500_and_exits_with_1(engine: Process) -> None:
    with engine.http.stream("POST", CHAT, json=body({"text": 9000})) as stream:
        raw = stream.iter_raw()
        next(raw)
        engine.http.post("/sim/fault", json={"kind": "die"})
        late = engine.http.post(CHAT, json=body({"text": 1}, stream=False))
        rest = b"".join(raw).decode()
    assert late.status_code == 500
    assert "EngineCore encountered an issue" in chunks(rest)[-2]["error"]["message"]
    assert engine.popen.wait(DEADLINE_S) == 1
    assert any("EngineDeadError: EngineCore encountered an issue" in line for line in engine.lines())


def test_a_window_that_does_not_fit_in_the_cache_stops_the_start(tmp_path: Path) -> None:
    with started(tmp_path / "log", "--num-gpu-blocks-override", "1000") as process:
        assert process.popen.wait(DEADLINE_S) == 1
        log = "\n".join(process.lines())
    assert "ValueError: To serve at least one request with the model's max seq len (65536), (6.0 GiB" in log
    assert "the estimated maximum model length is 15984" in log
    assert "Engine core initialization failed. See root cause above." in log


def test_a_port_in_use_stops_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        argv = [sys.executable, "-P", "-m", "control.local.engine", "serve", "tiny", "--port", str(port)]
        done = subprocess.run(argv, capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    assert b"Address already in use" in done.stderr


def test_nothing_listens_until_it_has_loaded(tmp_path: Path) -> None:
    with started(tmp_path / "log", "--sim-load-seconds", "600") as process:
        eventually(lambda: any("Starting to load" in line or "Using max" in line for line in process.lines()))
        with pytest.raises(httpx.ConnectError):
            process.http.get("/health")


def test_nonsense_on_the_command_line_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve"])
    assert caught.value.code == 2
    assert "the following arguments are required: model" in capsys.readouterr().err


def test_it_sleeps_and_wakes_and_answers_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    with started(tmp_path / "log", "--enable-sleep-mode", "--sim-sleep-seconds", "0.01") as process:
        eventually(lambda: healthy(process))
        assert process.http.post("/sleep?level=1").json() == {"status": "sleeping", "level": 1}
        assert process.http.get("/health").status_code == 200
        assert process.http.get("/is_sleeping").json() == {"is_sleeping": True}
        assert process.http.post("/wake_up").json() == {"status": "awake", "tags": None}
        assert process.http.post(CHAT, json=body({"text": 3}) | {"stream": False}).status_code == 200
        log = "\n".join(process.lines())
    assert "seconds to fall asleep." in log
    assert "seconds to wake up tags" in log
