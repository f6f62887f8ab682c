"""Go or no-go: as two H200 were recorded, and with one thing changed at a time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.preflight import cuda_version, facts, judge, parse_query, peer_to_peer, questions
from bootstrap.report import Check, Gpu, Host, Preflight
from bootstrap.spec import PodSpec, parse
from bootstrap.toml_reader import data

DATA = Path(__file__).parents[1] / "data" / "bootstrap"
RECORDED: dict[str, str] = json.loads((DATA / "preflight-2xh200.json").read_text(encoding="utf-8"))
TEXT = '[serve]\nmodel = "a"\n[models.a]\nrepo = "x/a"\n[models.b]\nrepo = "x/b"\nrevision = "r"\n'
SPEC = parse(TEXT)
SLEEPING = parse(TEXT + '[swap]\nstrategy = "sleep"\n')
TWO = parse(TEXT.replace("[models.a]", "tensor_parallel = 2\n[models.a]"))


def model(gib: float, cached: float = 0.0, quantisation: str | None = None) -> str:
    return json.dumps({"bytes": gib * 2**30, "cached": cached * 2**30, "quantisation": quantisation})


def judged(spec: PodSpec = SPEC, **changes: str | None) -> Preflight:
    """The recorded answers, with some replaced; None for one that failed. model_a is the question "model a"."""
    outputs = {**RECORDED, **{name.replace("model_", "model "): text for name, text in changes.items() if text}}
    gone = {name.replace("model_", "model ") for name, text in changes.items() if text is None}
    return judge(spec, facts({name: text for name, text in outputs.items() if name not in gone}))


def problems(preflight: Preflight) -> dict[str, str]:
    return {check.name: check.says for check in preflight.checks if check.verdict != "ok"}


def test_the_recorded_machine_will_do() -> None:
    for spec in (SPEC, SLEEPING, TWO):
        preflight = judged(spec)
        assert (problems(preflight), preflight.go, preflight.may_sleep) == ({}, True, True)
    assert judged().checks[0] == Check("gpu", "ok", "2 × NVIDIA H200")


def test_its_facts() -> None:
    known = facts(RECORDED)
    assert (known.host.driver, known.host.cuda, len(known.host.gpus)) == ("580.159.04", "13.0", 2)
    assert known.torch == {"cuda": "13.0", "count": 2, "error": None}
    sizes = {name: known.figures[name] for name in ("ram", "disk", "shm")}
    assert {name: round(size or 0) for name, size in sizes.items()} == {"ram": 251, "disk": 128, "shm": 256}
    assert (known.figures["clock"], known.peer_to_peer, known.xids) == (1795974400.0, True, ())
    assert known.models["b"]["bytes"] == 64424509440


GPUS = RECORDED["gpus"]
MEMINFO = "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable:   {} kB\n"


def torch(cuda: str | None = "13.0", count: int = 2, error: str | None = None) -> str:
    return f"UserWarning: something\n{json.dumps({'cuda': cuda, 'count': count, 'error': error})}\n"


@pytest.mark.parametrize(
    ("check", "spec", "changes", "says"),
    [
        ("gpu", SPEC, {"gpus": "\n", "torch": torch(count=0)}, "torch is built for CUDA 13.0, and there is no GPU"),
        ("gpu-count", TWO, {"gpus": GPUS.splitlines()[0], "torch": torch(count=1)}, "2 GPUs and there are 1"),
        (
            "driver",
            SPEC,
            {"driver": "CUDA Version : 12.8", "torch": torch(count=0, error="The NVIDIA driver is too old")},
            "offers CUDA 12.8, and torch is built for 13.0",
        ),
        ("sick-driver", SPEC, {"gpus": GPUS + "GPU is lost\n"}, "nvidia-smi says GPU is lost"),
        ("sick-torch", SPEC, {"torch": torch(error="No CUDA GPUs are available")}, "torch says No CUDA GPUs"),
        ("sick-count", SPEC, {"torch": torch(count=1)}, "the driver lists 2 GPUs and torch sees 1"),
        ("sick-power", SPEC, {"gpus": GPUS.replace("78.32", "[N/A]")}, "GPU 1 has a power state and draws no power"),
        ("sick-xid", SPEC, {"kernel": "[1.0] NVRM: Xid (PCI:0000:3d:00): 79, pid=1, GPU has fallen"}, "Xid 79"),
        (
            "capability",
            SPEC,
            {"gpus": GPUS.replace("9.0", "7.5"), "model_a": model(1, 1, "modelopt")},
            "compute capability 7.5, and modelopt needs 8.0",
        ),
        ("gpu-memory", SPEC, {"model_a": model(130, 130)}, "130.0 GiB of weights on each GPU, and only 124.9 GiB"),
        ("gpu-used", SPEC, {"gpus": GPUS.replace("H200, 0", "H200, 9000")}, "8.8 GiB of GPU memory are in use"),
        ("ram", SPEC, {"memory": MEMINFO.format(8 << 20)}, "8 GiB of RAM are available, less than 15"),
        ("ram", SPEC, {"memory_limit": f"{4 << 30}\n"}, "4 GiB of RAM are available, less than 15"),
        (
            "disk",
            SPEC,
            {"model_a": model(140, 10), "gpus": "", "torch": torch(None)},
            "128 GiB of disk are free, and 132",
        ),
        ("shm", TWO, {"shm": "shm 67108864 0 67108864 0% /dev/shm"}, "/dev/shm has 0.1 GiB, little for 2 GPUs"),
        ("clock", SPEC, {"clock": "12345\n"}, "the clock says 12345 s since 1970"),
        ("sleep-build", SLEEPING, {"torch": torch(None, 0), "gpus": ""}, "vLLM's CPU build has no sleep mode"),
        ("sleep-sizes", SLEEPING, {"model_b": "Traceback…"}, "the size of b is not known"),
        ("sleep-memory", SLEEPING, {"memory": MEMINFO.format(70 << 20)}, "pin 78 GiB of RAM and 70 GiB are available"),
        (
            "sleep-gpu",
            SLEEPING,
            {"gpus": GPUS.replace("143771", "16384"), "model_a": model(1, 1)},
            "hold 2.4 GiB of GPU",
        ),
    ],
)
def test_what_is_wrong_is_found_alone_and_has_its_remedy(
    check: str, spec: PodSpec, changes: dict[str, Any], says: str
) -> None:
    preflight = judged(spec, **changes)
    assert list(problems(preflight)) == [check]
    found = next(one for one in preflight.checks if one.name == check)
    assert says in found.says
    assert found.remedy
    assert preflight.go is (found.verdict == "warn")
    assert preflight.may_sleep is not check.startswith("sleep-")


def test_every_check_of_the_table_is_met_above() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in data("preflight.toml")["checks"] if f'"{name}"' not in source] == []


def test_an_older_driver_will_do_where_torch_computes_through_the_compatibility_package() -> None:
    assert problems(judged(driver="CUDA Version : 12.8")) == {}


def test_a_cpu_build_and_a_simulated_engine_miss_no_gpu() -> None:
    for answer in (torch(None, 0), None):
        preflight = judged(gpus=None, driver=None, topology=None, torch=answer)
        assert (problems(preflight), preflight.go) == ({}, True)
    assert judged(SLEEPING, gpus=None, torch=None).may_sleep  # only a simulated engine has no torch


def test_what_is_not_known_stops_nobody() -> None:
    assert judge(SLEEPING, facts({})) == Preflight(True, (), True)


def test_all_models_must_fit_on_the_disk_where_all_are_kept() -> None:
    sizes: dict[str, Any] = {"model_a": model(100), "model_b": model(100)}
    assert "disk" not in problems(judged(**sizes))
    assert "disk" in problems(judged(SLEEPING, **sizes))
    assert "disk" in problems(judged(parse(TEXT + '[preload]\nmodels = ["b"]\n'), **sizes))


texts = st.text() | st.sampled_from(list(RECORDED.values())).flatmap(
    lambda text: st.integers(0, len(text)).map(lambda end: text[:end])
)


@given(st.dictionaries(st.sampled_from(sorted(RECORDED)), texts), st.sampled_from([SPEC, SLEEPING, TWO]))
def test_any_answers_are_judged(outputs: dict[str, str], spec: PodSpec) -> None:
    preflight = judge(spec, facts(outputs))
    assert preflight.go is all(check.verdict != "no-go" for check in preflight.checks)
    assert all((check.remedy is None) is (check.verdict == "ok") for check in preflight.checks)


def test_each_question_is_a_command() -> None:
    asked = questions(SPEC, "python3", "/weights")
    assert asked["disk"] == ("df", "-PB1", "/weights")
    assert asked["model b"][3:] == ("size", "x/b", "r")
    assert {name.split()[0] for name in RECORDED} <= {name.split()[0] for name in asked}


@pytest.mark.process
def test_the_probes_run_by_the_interpreter_they_are_given_to(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "awq"}}', "utf-8")
    (tmp_path / "a.safetensors").write_bytes(b"12345")
    (tmp_path / "b.bin").write_bytes(b"123")
    asked = questions(parse(TEXT.replace("x/a", str(tmp_path))), sys.executable, str(tmp_path))
    outputs = {}
    for name in ("model a", "torch", "memory", "disk", "clock"):
        run = subprocess.run(asked[name], capture_output=True, text=True, timeout=60, check=True)
        outputs[name] = run.stdout
    known = facts(outputs)
    assert known.models == {"a": {"bytes": 5, "cached": 5, "quantisation": "awq"}}
    assert re.match("no torch", known.torch["error"])
    assert known.figures["ram"]
    assert known.figures["disk"]
    assert judge(SPEC, known).go


def test_the_recorded_query() -> None:
    text = (DATA / "nvidia-smi-h200-query.csv").read_text(encoding="utf-8")
    first = Gpu(0, "NVIDIA H200", 0.0, 143771.0, 0.0, 78.21, 32.0, "P0", 9.0)
    second = Gpu(1, "NVIDIA H200", 0.0, 143771.0, 0.0, 78.32, 30.0, "P0", 9.0)
    assert parse_query(text, "13.0") == Host(driver="580.159.04", cuda="13.0", gpus=(first, second))


@pytest.mark.parametrize("name", ["nvidia-smi-h200.txt", "nvidia-smi-h200-q.txt"])
def test_the_recorded_headers(name: str) -> None:
    assert cuda_version((DATA / name).read_text(encoding="utf-8")) == "13.0"


def test_no_header_no_version() -> None:
    assert cuda_version("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") is None


def test_what_the_driver_does_not_say_is_none_and_a_lost_gpu_is_an_error() -> None:
    text = (
        "0, NVIDIA L4, [N/A], 23034, [Not Supported], [Unknown Error], 40, 580.1, [N/A], 8.9\n"
        "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error\n"
    )
    host = parse_query(text, None)
    assert host.gpus == (Gpu(0, "NVIDIA L4", None, 23034.0, None, None, 40.0, None, 8.9),)
    assert host.gpu_error == "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"
    assert (host.driver, host.cuda) == ("580.1", None)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_host(text: str) -> None:
    host = parse_query(text, None)
    assert bool(text.strip()) == bool(host.gpus or host.gpu_error)


HEAD = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect\n"


@pytest.mark.parametrize(
    ("rows", "direct"),
    [
        ("GPU0\t X \tNV18\tSYS\t0-31\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t0-31\t0\t\tN/A\nNIC0\tSYS\tSYS\t X \n", True),
        ("GPU0\t X \tSYS\tPIX\t0-15\t0\t\tN/A\nGPU1\tSYS\t X \tSYS\t16-31\t1\t\tN/A\n", False),
        ("GPU0\t X \tPHB\tPIX\t0-15\t0\t\tN/A\nGPU1\tPHB\t X \tPIX\t0-15\t0\t\tN/A\n", True),
        ("GPU0\t X \tSYS\t0-15\t0\t\tN/A\n", True),
        ("", True),
    ],
)
def test_gpus_that_are_joined_only_across_cpu_sockets(rows: str, direct: bool) -> None:
    assert peer_to_peer(HEAD + rows + LEGEND) is direct
