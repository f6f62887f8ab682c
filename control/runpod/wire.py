"""RunPod's REST v2 JSON <-> our values. Pure.

Unknown fields are ignored and most known ones may be missing: the service answers with less than its specification
promises (an empty `runtime`, no `cost`), and with more as it grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from control.models import Bill, Offer, PodLogLine, SshAddress
from control.runpod.order import Order, container_args, is_secret

T = TypeVar("T")
Stocks = ("HIGH", "MEDIUM", "LOW", "NONE")


class WireError(ValueError):
    """An answer that is not what REST v2 documents."""


class Port(msgspec.Struct, frozen=True):
    private: int | None = None
    public: int | None = None
    type: str | None = None
    ip: str | None = None


class Runtime(msgspec.Struct, frozen=True):
    uptime: float | None = None
    ports: tuple[Port, ...] | None = None

    @property
    def alive(self) -> bool:
        """An empty one comes before the container runs."""
        return self.uptime is not None or bool(self.ports)


class Direct(msgspec.Struct, frozen=True):
    host: str = ""
    port: int = 0
    username: str = "root"


class Ssh(msgspec.Struct, frozen=True):
    direct: Direct | None = None


class GpuUse(msgspec.Struct, frozen=True):
    id: str = ""
    count: int = 1


class Persistent(msgspec.Struct, frozen=True):
    size: int = 0
    path: str = ""


class Network(msgspec.Struct, frozen=True, rename="camel"):
    volume_id: str = ""
    path: str = ""


class Mounts(msgspec.Struct, frozen=True):
    persistent: Persistent | None = None
    network: tuple[Network, ...] | None = None


class PodAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """One pod. `env` holds its tokens: never printed."""

    id: str
    name: str = ""
    status: str = ""
    image: str | None = None
    args: str | None = None
    disk: int | None = None
    ports: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    registry: str | None = None
    mounts: Mounts | None = None
    gpu: GpuUse | None = None
    cloud: str | None = None
    data_center_id: str | None = None
    cuda_version: str | None = None
    ssh: Ssh | None = None
    cost: float | None = None
    locked: bool = False
    runtime: Runtime | None = None
    created_at: str | None = None
    started_at: str | None = None

    def __repr__(self) -> str:
        return f"PodAnswer({self.id}, {self.status})"


class _PodPart(msgspec.Struct, frozen=True):
    pods: tuple[PodAnswer, ...]


class _Availability(msgspec.Struct, frozen=True):
    id: str
    availability: str = "?"


class _CudaAt(msgspec.Struct, frozen=True):
    version: str
    available: bool = False


class _PerCloud(msgspec.Struct, frozen=True):
    secure: float = 0.0
    community: float = 0.0


class _Gpu(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    memory: int = 0
    secure: bool = False
    community: bool = False
    price: _PerCloud = _PerCloud()
    max_count: _PerCloud = _PerCloud()
    availability: str | None = None
    data_centers: tuple[_Availability, ...] | None = None
    cuda_versions: tuple[_CudaAt, ...] | None = None


class _Gpus(msgspec.Struct, frozen=True):
    gpus: tuple[_Gpu, ...]


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    start_time: str
    end_time: str
    total_amount: float
    pod_id: str = ""


class _Billing(msgspec.Struct, frozen=True):
    records: tuple[_Record, ...]


class _Pagination(msgspec.Struct, frozen=True, rename="camel"):
    next_cursor: str | None = None
    has_next_page: bool = False


class _Paged(msgspec.Struct, frozen=True):
    pagination: _Pagination = _Pagination()


class _Log(msgspec.Struct, frozen=True):
    ts: str = ""
    source: str = ""
    line: str = ""


def _read(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"not what RunPod's REST v2 documents: {error}") from error


def pod(body: bytes) -> PodAnswer:
    """Raises WireError, as does every reader here."""
    return _read(body, PodAnswer)


def pods(body: bytes) -> tuple[PodAnswer, ...]:
    return _read(body, _PodPart).pods


def next_cursor(body: bytes) -> str | None:
    """Where the list goes on; None at its end, and from a service that does not page."""
    page = _read(body, _Paged).pagination
    return page.next_cursor if page.has_next_page else None


def log_line(data: bytes) -> PodLogLine:
    """One record of the log stream."""
    line = _read(data, _Log)
    return PodLogLine(line.ts, line.source, line.line)


def offers(body: bytes, count: int, cloud: str) -> tuple[Offer, ...]:
    """What the catalogue has in that cloud for pods of `count` GPUs. A type without a price there is not offered."""
    found = [_offer(gpu, count, cloud) for gpu in _read(body, _Gpus).gpus if gpu.id != "unknown"]
    return tuple(offer for offer in found if offer is not None)


def _offer(gpu: _Gpu, count: int, cloud: str) -> Offer | None:
    secure = cloud == "SECURE"
    price = gpu.price.secure if secure else gpu.price.community
    most = gpu.max_count.secure if secure else gpu.max_count.community
    if not (gpu.secure if secure else gpu.community) or price <= 0 or count > (most or count):
        return None
    free = [at for at in gpu.data_centers or () if at.availability != "NONE"]
    stock = gpu.availability if gpu.availability in Stocks else "?"
    return Offer(
        gpu=gpu.id,
        count=count,
        memory_gb=gpu.memory,
        cloud=cloud,
        data_centers=tuple(at.id for at in sorted(free, key=lambda at: Stocks.index(_known(at.availability)))),
        per_hour=price * count,
        stock=stock,  # type: ignore[arg-type]
        cuda=tuple(at.version for at in gpu.cuda_versions or () if at.available),
    )


def _known(stock: str) -> str:
    return stock if stock in Stocks else "NONE"


def bills(body: bytes, pod_id: str) -> tuple[Bill, ...]:
    """The charges for one pod, oldest first."""
    records = [record for record in _read(body, _Billing).records if record.pod_id in ("", pod_id)]
    made = [Bill(unix(r.start_time) or 0.0, unix(r.end_time) or 0.0, r.total_amount) for r in records]
    return tuple(sorted(made, key=lambda bill: bill.start))


def unix(text: str | None) -> float | None:
    """RFC 3339 -> Unix seconds; None for nothing, and for what is no time."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ssh_address(answer: PodAnswer) -> SshAddress | None:
    """Direct TCP: the `ssh` block, else the runtime's mapping of port 22 on a public address."""
    direct = answer.ssh.direct if answer.ssh else None
    if direct and direct.host and direct.port:
        return SshAddress(direct.host, direct.port, direct.username)
    for port in (answer.runtime.ports if answer.runtime else None) or ():
        if port.private == 22 and port.type == "tcp" and port.public and port.ip:
            return SshAddress(port.ip, port.public, "root")
    return None


def create_body(order: Order, name: str, offer: Offer, data_center: str | None) -> dict[str, object]:
    """The request that creates one pod. `gpu.count` and `disk` are always said: their defaults do not work."""
    gpu: dict[str, object] = {"id": offer.gpu, "count": order.count}
    if order.cuda:
        gpu["allowedCudaVersions"] = list(order.cuda)
    elif order.min_cuda:
        gpu["minCudaVersion"] = order.min_cuda
    optional: dict[str, object | None] = {
        "image": order.image,
        "templateId": order.template,
        "args": container_args(order),
        "registry": order.registry,
        "mounts": _mounts(order),
        "dataCenterIds": [data_center.upper()] if data_center else None,
    }
    return {
        "name": name,
        "gpu": gpu,
        "cloud": offer.cloud,
        "disk": order.disk_gb,
        "ports": list(order.ports),
        "env": dict(order.env),
        "startSsh": order.start_ssh,
    } | {key: value for key, value in optional.items() if value is not None}


def _mounts(order: Order) -> dict[str, object] | None:
    if order.network_volume:
        return {"network": [{"volumeId": order.network_volume, "path": order.mount}]}
    return {"persistent": {"size": order.volume_gb, "path": order.mount}} if order.volume_gb else None


def shown(body: Mapping[str, object]) -> dict[str, object]:
    """The same request for human eyes: every variable that may be a secret shows its length alone."""
    env = body.get("env")
    if not isinstance(env, dict):
        return dict(body)
    return dict(body) | {"env": {name: _shown(name, str(value)) for name, value in env.items()}}


def _shown(name: str, value: str) -> str:
    return f"••• ({len(value)} characters)" if is_secret(name) else value
