"""What a pod is to be: an order, before any machine is chosen. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from control.errors import UsageError

BRIDGE_PORT = 8080
PORTS = (f"{BRIDGE_PORT}/http", "22/tcp")
DISK_GB = 150
"""Container disk: a 30B model in 4 or 8 bits, the image's layers and room for caches."""

MOST_ENV = 50
"""Variables per pod, by RunPod's documentation."""

NAME_MOST = 60
"""Letters of a pod's name; longer ones fail without saying so (dstack's finding)."""

_CUDA = re.compile(r"\d+\.\d+")
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Order:
    """Raises UsageError for what RunPod would refuse whatever the machine."""

    gpus: tuple[str, ...]
    """Exact type ids; the cheapest that fits is tried first."""
    count: int = 1
    clouds: tuple[str, ...] = ("SECURE",)
    data_centers: tuple[str, ...] = ()
    """Tried in this order, each alone; empty leaves the choice to RunPod."""
    max_price: float | None = None
    """$ per hour for all GPUs of the pod."""
    image: str | None = None
    template: str | None = None
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    args: str | None = None
    """The container's command as one line. Never beside `entrypoint` and `cmd`, which need no quoting."""
    disk_gb: int = DISK_GB
    volume_gb: int = 0
    network_volume: str | None = None
    mount: str = "/workspace"
    ports: tuple[str, ...] = PORTS
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cuda: tuple[str, ...] = ()
    """Exact versions of the host; empty takes any."""
    min_cuda: str | None = None
    registry: str | None = None
    start_ssh: bool = True
    label: str = "passerelle"
    """Beginning of the pod's name; a part that makes it unique comes after it."""
    hub: str | None = None
    budget: float | None = None

    def __post_init__(self) -> None:
        for wrong, remedy in self._faults():
            raise UsageError(wrong, remedy)

    def _faults(self) -> list[tuple[str, str]]:
        bad_cuda = [v for v in (*self.cuda, *([self.min_cuda] if self.min_cuda else [])) if not _CUDA.fullmatch(v)]
        checks = [
            (not self.gpus, "no GPU type is named", "name one or several with --gpu (passerelle pod offers)"),
            (self.count < 1, "a pod needs at least one GPU", "--gpus 1"),
            (not (self.image or self.template), "neither an image nor a template is named", "--image or --template"),
            (self.args is not None and bool(self.entrypoint or self.cmd), "args beside cmd or entrypoint", "give one"),
            (bool(self.cuda) and self.min_cuda is not None, "exact CUDA versions beside a lowest one", "give one"),
            (bool(bad_cuda), f"{bad_cuda[:1]} is no CUDA version", "as in 12.8"),
            (bool(self.volume_gb) and self.network_volume is not None, "two volumes", "one volume per pod at RunPod"),
            (0 < self.volume_gb < 10, "a volume has 10 GB at least", "--volume 10"),
            (self.disk_gb < 1, "a pod needs a container disk", "--disk 150"),
            (len(self.env) > MOST_ENV, f"{len(self.env)} environment variables; RunPod takes {MOST_ENV}", "fewer"),
            (
                self.network_volume is not None and "COMMUNITY" in self.clouds,
                "network volumes are for the secure cloud alone",
                "leave --community out",
            ),
        ]
        return [(wrong, remedy) for failed, wrong, remedy in checks if failed]


def container_args(order: Order) -> str | None:
    """The `args` of the request. cmd and entrypoint travel as JSON, so that no shell and no splitting sees them."""
    if not (order.entrypoint or order.cmd):
        return order.args
    parts: dict[str, list[str]] = {}
    if order.entrypoint:
        parts["entrypoint"] = list(order.entrypoint)
    if order.cmd:
        parts["cmd"] = list(order.cmd)
    return json.dumps(parts, ensure_ascii=False)


def is_secret(variable: str) -> bool:
    """Whether the value of an environment variable of that name must not be shown."""
    return bool(_SECRET.search(variable)) and variable != "PUBLIC_KEY"
