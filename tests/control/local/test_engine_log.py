from __future__ import annotations

import logging
import re

import pytest

from bootstrap.enginelog import EngineLog
from control.local.engine_log import Tally, VllmFormatter, boot, statistics
from control.local.engine_options import Options
from tests.control.local.simulated import options

FORMAT = VllmFormatter(pid=7)


def line(name: str, text: str) -> str:
    return FORMAT.format(logging.LogRecord(name, logging.INFO, "/x/engine.py", 12, text, (), None))


def test_a_line_looks_like_vllms() -> None:
    assert re.fullmatch(
        r"\(EngineCore pid=7\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[engine\.py:12\] GPU KV cache size: 7 tokens",
        line("vllm.EngineCore", "GPU KV cache size: 7 tokens"),
    )
    assert line("uvicorn.error", "Shutting down") == "(APIServer pid=7) INFO:     Shutting down"


def test_every_line_of_a_text_has_the_prefix() -> None:
    lines = line("vllm.APIServer", "a\nb").splitlines()
    assert len(lines) == 2
    assert all(one.startswith("(APIServer pid=7) INFO ") for one in lines)


def test_statistics_read_as_vllms_do() -> None:
    text = statistics(
        Tally(10.0, 1000, 50), Tally(20.0, 12_423, 203), running=5, waiting=1, kv_usage=0.3434, hit_rate=0.386
    )
    assert text == (
        "Engine 000: Avg prompt throughput: 1142.3 tokens/s, Avg generation throughput: 15.3 tokens/s, "
        "Running: 5 reqs, Waiting: 1 reqs, GPU KV cache usage: 34.3%, Prefix cache hit rate: 38.6%"
    )


def read(chosen: Options) -> EngineLog:
    """A start as the pod's supervisor reads it, each line formatted as it is written."""
    log, now = EngineLog(0.0), 0.0
    for said in boot(chosen):
        log.feed(line("vllm.EngineCore" if said.core else "vllm.APIServer", said.text), now)
        now += said.takes_s
    log.feed("(APIServer pid=7) INFO:     Application startup complete.", now)
    return log


def test_a_start_is_read_as_one_of_vllm() -> None:
    chosen = options("--sim-load-seconds", "80", "--max-model-len", "65536", "--num-gpu-blocks-override", "8193")
    result = read(chosen).boot(90.0)
    assert [(phase.name, phase.at_s, phase.took_s) for phase in result.phases] == [
        ("start", 0.0, 20.0),
        ("weights", 20.0, 10.0),
        ("compile", 30.0, 10.0),
        ("profile", 40.0, 10.0),
        ("kv", 50.0, 10.0),
        ("graphs", 60.0, 10.0),
        ("api", 80.0, 0.0),
        ("ready", 80.0, 0.0),
    ]
    assert (result.ready, result.fault) == (True, None)
    assert (result.figures["kv_tokens"], result.figures["concurrency"], result.figures["kv_gib"]) == (
        131_088,
        2.0,
        12.0,
    )
    assert result.kernels == {"architecture": "SimulatedForCausalLM", "attention": "SIMULATED"}


def test_a_window_that_does_not_fit_is_the_fault_that_vllm_has() -> None:
    fault = read(options("--max-model-len", "65536", "--num-gpu-blocks-override", "1025")).boot(1.0).fault
    assert fault is not None
    assert (fault.name, fault.figures["longest"]) == ("kv-too-small", "16384")


@pytest.mark.parametrize("seconds", [0.0, 0.5, 80.0])
def test_a_start_takes_the_time_that_it_was_given(seconds: float) -> None:
    took = sum(said.takes_s for said in boot(options("--sim-load-seconds", str(seconds))))
    assert took == pytest.approx(seconds)
