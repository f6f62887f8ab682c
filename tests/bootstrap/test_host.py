"""nvidia-smi as recorded on an H200 (driver 580), and as it is when a GPU is unwell."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.host import cuda_version, parse_query, peer_to_peer
from bootstrap.report import Gpu, Host

DATA = Path(__file__).parents[1] / "data" / "bootstrap"


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
