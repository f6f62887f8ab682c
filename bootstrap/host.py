"""What nvidia-smi says -> Host. Pure; NVIDIA-SMI 580 was recorded in tests/data/bootstrap."""

import re

from bootstrap.report import Gpu, Host

_FIELDS = (
    "index,name,memory.used,memory.total,utilization.gpu,power.draw,temperature.gpu,driver_version,pstate,compute_cap"
)
QUERY = (f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
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
        if len(cells) != 10 or not cells[0].isdigit():
            error = error or line[:200]
            continue
        driver = driver or (cells[7] if cells[7][:1].isdigit() else None)
        used, total, busy, power, heat, _, _, capability = map(_number, cells[2:])
        pstate = cells[8] if re.fullmatch(r"P\d+", cells[8]) else None
        gpus.append(Gpu(int(cells[0]), cells[1], used, total, busy, power, heat, pstate, capability))
    return Host(driver=driver, cuda=cuda, gpus=tuple(gpus), gpu_error=error)


def peer_to_peer(text: str) -> bool:
    """The matrix of `nvidia-smi topo -m`: False where two GPUs are joined only across CPU sockets ("SYS")."""
    rows = [line.split("\t") for line in text.splitlines() if re.match(r"GPU\d+\t", line)]
    return not any(cell.strip() == "SYS" for row in rows for cell in row[1 : len(rows) + 1])


# None for [N/A], [Not Supported], [Unknown Error], [GPU is lost].
def _number(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", cell) else None
