"""What nvidia-smi says -> Host. Pure; NVIDIA-SMI 580 was recorded in tests/data/bootstrap."""

import re

from bootstrap.report import Gpu, Host

QUERY = (
    "--query-gpu=index,name,memory.used,memory.total,utilization.gpu,power.draw,temperature.gpu,driver_version",
    "--format=csv,noheader,nounits",
)
_CUDA = re.compile(r"CUDA Version\s*: ?([0-9]+\.[0-9]+)")


def cuda_version(text: str) -> str | None:
    """The highest CUDA version that the driver offers, of the header of `nvidia-smi` or of `nvidia-smi -q`."""
    return found[1] if (found := _CUDA.search(text)) else None


def parse_query(text: str, cuda: str | None) -> Host:
    """The output of `nvidia-smi` with QUERY. A line that is no row of it (a lost GPU's) becomes `gpu_error`."""
    gpus: list[Gpu] = []
    driver = error = None
    for line in filter(None, (line.strip() for line in text.splitlines())):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 8 or not cells[0].isdigit():
            error = error or line[:200]
            continue
        driver = driver or (cells[7] if cells[7][:1].isdigit() else None)
        gpus.append(Gpu(int(cells[0]), cells[1], *(_number(cell) for cell in cells[2:7])))
    return Host(driver=driver, cuda=cuda, gpus=tuple(gpus), gpu_error=error)


def _number(cell: str) -> float | None:
    """None for [N/A], [Not Supported], [Unknown Error], [GPU is lost]."""
    return float(cell) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", cell) else None
