"""Short names of GPUs -> RunPod's exact type ids. Pure.

A name means the whole card: a MIG slice of it is a type of its own, whose id begins with the card's, and is only ever
named in full or by its own short name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from control.errors import UsageError

_PRO_6000 = "NVIDIA RTX PRO 6000 Blackwell"

ALIASES: dict[str, tuple[str, ...]] = {
    "a40": ("NVIDIA A40",),
    "ada": ("NVIDIA RTX 6000 Ada Generation",),
    "6000ada": ("NVIDIA RTX 6000 Ada Generation",),
    "pro6000": (
        f"{_PRO_6000} Server Edition",
        f"{_PRO_6000} Workstation Edition",
        f"{_PRO_6000} Max-Q Workstation Edition",
    ),
    "pro6000-server": (f"{_PRO_6000} Server Edition",),
    "pro6000-workstation": (f"{_PRO_6000} Workstation Edition",),
    "pro6000-maxq": (f"{_PRO_6000} Max-Q Workstation Edition",),
    "pro6000-mig24": (f"{_PRO_6000} Server Edition MIG 1g.24gb",),
    "pro6000-mig48": (f"{_PRO_6000} Server Edition MIG 2g.48gb",),
    "pro4500": ("NVIDIA RTX PRO 4500 Blackwell",),
    "h100": ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL"),
    "h100-sxm": ("NVIDIA H100 80GB HBM3",),
    "h100-pcie": ("NVIDIA H100 PCIe",),
    "h100-nvl": ("NVIDIA H100 NVL",),
    "h200": ("NVIDIA H200",),
    "h200-nvl": ("NVIDIA H200 NVL",),
    "b200": ("NVIDIA B200",),
    "b300": ("NVIDIA B300 SXM6 AC",),
    "a100": ("NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"),
    "a100-pcie": ("NVIDIA A100 80GB PCIe",),
    "a100-sxm": ("NVIDIA A100-SXM4-80GB",),
    "l40s": ("NVIDIA L40S",),
    "l40": ("NVIDIA L40",),
    "l4": ("NVIDIA L4",),
    "4090": ("NVIDIA GeForce RTX 4090",),
    "5090": ("NVIDIA GeForce RTX 5090",),
    "3090": ("NVIDIA GeForce RTX 3090",),
    "a6000": ("NVIDIA RTX A6000",),
    "a5000": ("NVIDIA RTX A5000",),
    "a4500": ("NVIDIA RTX A4500",),
    "a4000": ("NVIDIA RTX A4000",),
    "2000ada": ("NVIDIA RTX 2000 Ada Generation",),
    "4000ada": ("NVIDIA RTX 4000 Ada Generation",),
    "5000ada": ("NVIDIA RTX 5000 Ada Generation",),
    "mi300x": ("AMD Instinct MI300X OAM",),
}


def exact(names: Iterable[str], catalogue: Iterable[str] = ()) -> tuple[str, ...]:
    """The exact ids of what was named, in that order, each once.

    An id goes through as it is, in any case of its letters, if the catalogue or our own list has it: nothing is
    matched by a part of a name. Raises UsageError, with what comes near.
    """
    known = {id_.lower(): id_ for ids in ALIASES.values() for id_ in ids} | {id_.lower(): id_ for id_ in catalogue}
    found: list[str] = []
    for name in names:
        wanted = name.strip().lower()
        ids = ALIASES.get(wanted) or ((known[wanted],) if wanted in known else ())
        if not ids:
            near = difflib.get_close_matches(wanted, [*ALIASES, *known], n=3, cutoff=0.5)
            meant = ", ".join(known.get(word, word) for word in near)
            raise UsageError(
                f"no GPU type {name!r}", f"did you mean: {meant}" if meant else "see them: passerelle pod offers"
            )
        found += [id_ for id_ in ids if id_ not in found]
    return tuple(found)


def short(gpu: str) -> str:
    """The short name of an exact id that stands for it alone; the id itself when there is none."""
    return next((alias for alias, ids in ALIASES.items() if ids == (gpu,)), gpu)
