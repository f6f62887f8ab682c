"""Go or no-go before any download: what the machine is asked, what its answers mean, and whether it will do. Pure."""

# An answer that is missing or cannot be read is not known, and what is not known stops nobody.

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bootstrap.command import gpus as gpus_of
from bootstrap.command import sleeps
from bootstrap.report import Check, Gpu, Host, Preflight
from bootstrap.spec import PodSpec
from bootstrap.toml_reader import beside, data

# Given whole to the engine's interpreter: it has other packages than ours, and in a zipapp there is no file to run.
ENGINE_SIDE = ("-c", beside("engineside.py"))
_DATA = data("preflight.toml")
_LIMITS = _DATA["limits"]
_GIB = 1 << 30
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


@dataclass(frozen=True, slots=True)
class Facts:
    """None and missing keys: not known."""

    host: Host
    torch: Mapping[str, Any]  # cuda, count, error; cuda is None in a CPU build
    models: Mapping[str, Mapping[str, Any]]  # by key: bytes, cached, quantisation
    figures: Mapping[str, float | None]  # of each question with a pattern; sizes in GiB
    xids: tuple[int, ...]
    peer_to_peer: bool  # False: two GPUs are joined only across CPU sockets, where NCCL hangs


def questions(spec: PodSpec, python: str, weights: str) -> dict[str, tuple[str, ...]]:
    """Commands by name. `python`: the engine's interpreter. `weights`: the folder that downloads go to."""
    asked = {name: row["ask"].split() for name, row in _DATA["questions"].items()}
    asked["disk"].append(weights)
    asked |= {"gpus": ["nvidia-smi", *QUERY], "torch": [python, *ENGINE_SIDE, "torch"]}
    for key, model in spec.models.items():
        asked[f"model {key}"] = [python, *ENGINE_SIDE, "size", model.repo, model.revision or ""]
    return {name: tuple(argv) for name, argv in asked.items()}


def facts(outputs: Mapping[str, str]) -> Facts:
    """What the answers say. A question that failed has no entry."""
    said = defaultdict(str, outputs)
    figures = {name: _figure(row, said[name]) for name, row in _DATA["questions"].items() if "figure" in row}
    rams = [size for size in (figures["memory"], figures["memory_limit"]) if size is not None]
    return Facts(
        host=parse_query(said["gpus"], cuda_version(said["driver"])),
        torch=_json(said["torch"]),
        models={name.removeprefix("model "): _json(said[name]) for name in outputs if name.startswith("model ")},
        figures=figures | {"ram": min(rams, default=None)},
        xids=tuple(int(found) for found in re.findall(r"NVRM: Xid \(.*?\): (\d+)", said["kernel"])),
        peer_to_peer=peer_to_peer(said["topology"]),
    )


def judge(spec: PodSpec, facts: Facts) -> Preflight:
    """Every check whose figures are known, in the table's order."""
    figures = _LIMITS | facts.figures | _of_gpus(facts) | _of_sizes(spec, facts)
    checks: list[Check] = []
    may_sleep = True
    for name, row in _DATA["checks"].items():
        known = [figures[row[column]] for column in ("more", "than", "shown") if column in row]
        left_out = (row.get("cuda") and not figures["torch_cuda"]) or (row.get("sleep") and not sleeps(spec))
        if None in known or left_out:
            continue
        problem = known[0] > known[1] if "than" in row else bool(known[0])
        says, remedy = (row[column].format_map(figures) for column in ("says" if problem else "fine", "remedy"))
        checks.append(Check(name, row["verdict"], says, remedy) if problem else Check(name, "ok", says))
        may_sleep = may_sleep and not (problem and row.get("sleep"))
    return Preflight(all(check.verdict != "no-go" for check in checks), tuple(checks), may_sleep)


# The figures that the table speaks of. Without torch nothing is known of CUDA.
def _of_gpus(facts: Facts) -> dict[str, Any]:
    host, gpus, torch, built_for = facts.host, facts.host.gpus, facts.torch, facts.torch.get("cuda")
    # A driver that is too old may still serve through the forward-compatibility package: torch's answer counts.
    usable = built_for if torch.get("count") else host.cuda
    too_old = bool(built_for and usable and _major(built_for) > _major(usable))
    powerless = [str(gpu.index) for gpu in gpus if gpu.pstate and gpu.power_w is None]
    return {
        **{"driver": host.driver, "cuda": host.cuda, "gpu_error": host.gpu_error or ""},
        **{"found": len(gpus), "gpus": len(gpus) or None, "name": gpus[0].name if gpus else None},
        **{"torch_cuda": built_for, "torch_major": _major(built_for), "usable_major": _major(usable)},
        "torch_count": None if too_old else torch.get("count"),
        "torch_error": None if too_old else torch.get("error") or "",
        "cpu_build": not built_for if "cuda" in torch else None,
        "powerless": ", ".join(powerless) if len(powerless) < len(gpus) else "",
        "sick_xid": ", ".join(str(xid) for xid in facts.xids if xid in _LIMITS["sick_xids"]),
        "capability": min((gpu.capability for gpu in gpus if gpu.capability), default=None),
        "used": max((gpu.memory_used_mib / 1024 for gpu in gpus if gpu.memory_used_mib), default=0.0),
    }


def _of_sizes(spec: PodSpec, facts: Facts) -> dict[str, Any]:
    served, needed = spec.serve.model, gpus_of(spec)
    sizes = {key: model["bytes"] / _GIB for key, model in facts.models.items() if model.get("bytes")}
    kept = {served, *spec.preload.models, *(spec.models if sleeps(spec) else ())} & set(sizes)
    missing = sum(sizes[key] - facts.models[key].get("cached", 0) / _GIB for key in kept)
    weights, quantisation = sizes.get(served), facts.models.get(served, {}).get("quantisation")
    memory = min((gpu.memory_total_mib / 1024 for gpu in facts.host.gpus if gpu.memory_total_mib), default=None)
    share = spec.serve.memory_utilization or 0.9
    return {
        **{"quantisation": quantisation, "least_capability": _DATA["capability"].get(quantisation), "needed": needed},
        "weights": weights and weights / (spec.serve.tensor_parallel or 1),
        "room": memory and memory * share - _LIMITS["gpu_spare"],
        "ram_wanted": weights and weights * _LIMITS["ram_share"],
        "disk_wanted": missing + _LIMITS["disk_spare"],
        "shm_wanted": _LIMITS["shm_least"] if needed > 1 else None,
        "sizeless": ", ".join(key for key in spec.models if key not in sizes),
        # At worst the smallest model is awake and all others sleep.
        "pinned": _LIMITS["sleeper_ram"] * (sum(sizes.values()) - min(sizes.values(), default=0.0)),
        "asleep": _LIMITS["sleeper_gpu"] * (len(spec.models) - 1),
        "unused": memory and memory * (1 - share),
    }


# The last line that is a JSON object: libraries print warnings before it.
def _json(text: str) -> dict[str, Any]:
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def _figure(row: Mapping[str, Any], text: str) -> float | None:
    found = re.search(row["figure"], text, re.MULTILINE)
    return int(found[1]) / row["per"] if found else None


def _major(version: str | None) -> Any:
    return int(version.split(".")[0]) if version else None


# None for [N/A], [Not Supported], [Unknown Error], [GPU is lost].
def _number(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", cell) else None
