"""What the double's RunPod has in stock, how long things take there, and what can go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

HOUR = 3600.0
PRO = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


@dataclass
class GpuType:
    id: str
    memory: int
    secure: float
    community: float = 0.0
    most: int = 8
    free: dict[str, int] = field(default_factory=dict)
    """Data centre -> GPUs free in the secure cloud."""
    cuda: tuple[str, ...] = ("12.8", "13.0")
    said: str | None = None
    """What the catalogue says of its stock, when that is not the truth."""


def stock() -> dict[str, GpuType]:
    types = [
        GpuType("NVIDIA A40", 48, 0.44, free={"EU-SE-1": 4, "CA-MTL-1": 2}),
        GpuType("NVIDIA RTX 6000 Ada Generation", 48, 0.77, 0.74, free={"US-IL-1": 2}),
        GpuType(PRO, 96, 1.89, free={"EU-RO-1": 2, "US-KS-2": 1}),
        GpuType(f"{PRO} MIG 1g.24gb", 24, 0.49, free={"EU-RO-1": 4}),
        GpuType("NVIDIA H200", 141, 3.99, free={"US-KS-2": 8}),
        GpuType("NVIDIA H100 80GB HBM3", 80, 2.69, 2.39),
        GpuType("unknown", 0, 0.0),
    ]
    return {gpu.id: gpu for gpu in types}


@dataclass
class Faults:
    """Numbers are how many times; seconds are on the clock. What is not set does not happen."""

    create_then_500: int = 0
    create_then_lost: int = 0
    """The pod is made, and the connection ends without an answer."""
    create_500: int = 0
    """500 and no pod."""
    unlisted_s: float = 0.0
    unfound_s: float = 0.0
    """404 by its id after creation."""
    no_runtime: bool = False
    broken: bool = False
    """ERROR instead of RUNNING."""
    empty_lists: int = 0
    failing_lists: int = 0
    gateway: int = 0
    """HTML 502 from what stands in front."""
    limited: int = 0
    retry_after: int | None = 3
    host_full: bool = False
    resume_without_gpu: bool = False
    stale_ssh_s: float = 0.0
    stop_ignored: int = 0
    page: int | None = None
    pools: frozenset[str] = frozenset()
    """GPU types that this key may not rent (403)."""
    refused: frozenset[str] = frozenset()
    """GPU types for which a create is a 400 without a reason."""
    retired: bool = False
    graphql_retired: bool = False
    graphql_error: str | None = None
    billing_lag_s: float = 2 * HOUR
    log_cut_after: int | None = None
    """Events after which a log stream breaks off."""

    def take(self, name: str) -> bool:
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0


@dataclass
class Times:
    """Seconds after a start."""

    provisioned: float = 5.0
    container: float = 15.0
    running: float = 30.0
    pulled: float = 90.0
    stopping: float = 4.0
