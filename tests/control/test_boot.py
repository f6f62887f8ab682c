"""How far a start is, in words and as an exit code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bootstrap.report import Boot, Check, Fault, Phase, Preflight, Status
from control.boot import exit_code, lines, seconds
from tests.control.observe.reports import service, status

OOM = Fault("oom-load", "fatal", "torch.OutOfMemoryError: CUDA out of memory", "lower context", {"needed_gib": "52"})
NO_GO = Check("driver", "no-go", "535", "re-create with CUDA 13")
PHASES = (Phase("download", 1.0, 80.0, 56e9, 700e6), Phase("weights", 81.0, None))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (status(), 0),
        (status(config_error="serial 3 is not newer"), 1),
        (status(boot=Boot(fault=replace(OOM, severity="symptom"))), 1),
        (status(engine=service("loading")), 1),
        (status(engine=service("backoff"), boot=Boot(fault=OOM)), 2),
        (status(engine=service("loading"), boot=Boot(fault=replace(OOM, severity="warning"))), 1),
        (status(engine=service("fatal")), 2),
        (status(engine=service("preflight"), preflight=Preflight(False, ())), 2),
    ],
)
def test_the_exit_code(found: Status, code: int) -> None:
    assert exit_code(found) == code


def test_every_part_is_told() -> None:
    found = status(
        engine=service("backoff", since_s=12.3, next_start_s=4.0, last_exit="exit code 1", restarts=2),
        config_error="serial 3 is not newer",
        preflight=Preflight(
            False, (Check("gpu", "ok", "1"), Check("driver", "no-go", "535", "re-create with CUDA 13"))
        ),
        boot=Boot(PHASES, figures={"kv_tokens": 812_345.0}, kernels={"attention": "FLASHINFER"}, fault=OOM),
        hub="429, again in 15 min",
    )
    text = lines(found)
    assert text[0] == "engine backoff 12.3 s, again in 4.0 s, bridge serving 60.0 s, model m, serial 3"
    whole = "\n".join(text)
    for words in (
        "config not applied: serial 3 is not newer",
        "no-go driver: 535",
        "-> re-create with CUDA 13",
        "download  at   1.0 s   80.0 s  56.0 GB at 700 MB/s",
        "weights   at  81.0 s   so far",
        "kv_tokens 812,345",
        "attention FLASHINFER",
        "fatal fault oom-load: torch.OutOfMemoryError: CUDA out of memory   needed_gib 52",
        "-> lower context",
        "it last ended by exit code 1, restarts 2",
        "hub: 429, again in 15 min",
    ):
        assert words in whole
    assert "gpu" not in whole, "what is well is not told"


def test_a_pod_that_says_little() -> None:
    assert lines(status(model=None, serial=None)) == ["engine serving 60.0 s, bridge serving 60.0 s, model –, serial –"]


@pytest.mark.parametrize(("value", "words"), [(0.04, "0.0 s"), (99.94, "99.9 s"), (200.0, "3 min 20 s")])
def test_seconds(value: float, words: str) -> None:
    assert seconds(value) == words
