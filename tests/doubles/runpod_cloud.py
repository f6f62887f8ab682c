"""RunPod's side of a pod's life, on a clock that the test owns: stock, machines, money, and every known trouble.

What it knows is from RunPod's OpenAPI file and from recorded answers (docs/decisions.md names the doubtful ones).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from control.clock import Clock
from tests.doubles.runpod_faults import HOUR, Faults, GpuType, Times, stock

NO_INSTANCES = (
    "There are no longer any instances available with the requested specifications. Please refresh and try again."
)
HOST_FULL = "There are not enough free GPUs on the host machine to start this pod."
LOW_BALANCE = "Your account balance is too low to rent a pod. Please add funds to your account."


@dataclass
class FakePod:
    id: str
    body: dict[str, Any]
    data_center: str
    rate: float
    created: float
    begun: float
    """Of the run that goes on, or of the last one."""
    ended: float | None = None
    """EXITED from then on."""
    port: int = 0
    old_port: int = 0
    gpus: int = 1
    runs: list[tuple[float, float]] = field(default_factory=list)
    container_since: float | None = None
    terminated: bool = False


class Trouble(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, errors: list[str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors


class Lost(Exception):
    """The connection ends without an answer."""


ACTIONS = {
    "RUNNING": ["stop", "restart", "terminate"],
    "EXITED": ["start", "terminate"],
    "ERROR": ["start", "terminate"],
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
}


class Cloud:
    """One account. `balance` falls as its pods run."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.faults = Faults()
        self.times = Times()
        self.gpus = stock()
        self.pods: dict[str, FakePod] = {}
        self.balance = 100.0
        self.limit = 80.0
        self.lines: list[str] = ["Model loaded."]
        self._numbers = itertools.count(1)
        self._charged_to = clock.now()

    def status(self, pod: FakePod) -> str:
        now, times = self.clock.now(), self.times
        if pod.ended is not None and now >= pod.ended:
            return "EXITED"
        age = now - pod.begun
        if age < times.provisioned:
            return "PROVISIONING"
        if age < times.running:
            return "STARTING"
        return "ERROR" if self.faults.broken else "RUNNING"

    def find(self, pod_id: str) -> FakePod:
        self.charge()
        pod = self.pods.get(pod_id)
        if pod is None or pod.terminated or self.clock.now() - pod.created < self.faults.unfound_s:
            raise Trouble(404, "resource not found")
        return pod

    def listed(self) -> list[FakePod]:
        """Newest first."""
        self.charge()
        if self.faults.take("failing_lists"):
            raise Trouble(500, "internal error")
        if self.faults.take("empty_lists"):
            return []
        now = self.clock.now()
        shown = [p for p in self.pods.values() if not p.terminated and now - p.created >= self.faults.unlisted_s]
        return sorted(shown, key=lambda pod: -pod.created)

    def create(self, body: dict[str, Any]) -> FakePod:
        self.charge()
        if self.faults.take("create_500"):
            raise Trouble(500, "create pod: context deadline exceeded")
        self._cross_checks(body)
        gpu = self.gpus.get(body["gpu"]["id"])
        if body["gpu"]["id"] in self.faults.pools:
            raise Trouble(403, "pool not accessible")
        if body["gpu"]["id"] in self.faults.refused:
            raise Trouble(400, "request could not be processed")
        where = self._place(gpu, body) if gpu else None
        if gpu is None or where is None:
            raise Trouble(400, NO_INSTANCES)
        count = body["gpu"]["count"]
        rate = (gpu.secure if body.get("cloud", "SECURE") == "SECURE" else gpu.community) * count
        if self.balance < rate:
            raise Trouble(402, LOW_BALANCE)
        pod = self._rent(body, where, rate, count, gpu)
        if self.faults.take("create_then_500"):
            raise Trouble(500, "create pod: context deadline exceeded")
        if self.faults.take("create_then_lost"):
            raise Lost
        return pod

    def _cross_checks(self, body: dict[str, Any]) -> None:
        if "gpu" not in body or "cpu" in body:
            raise Trouble(400, "exactly one of gpu or cpu must be set")
        if body["gpu"].get("allowedCudaVersions") and body["gpu"].get("minCudaVersion"):
            raise Trouble(400, "allowedCudaVersions and minCudaVersion are mutually exclusive")
        mounts = body.get("mounts", {})
        if "persistent" in mounts and "network" in mounts:
            raise Trouble(400, "mounts.persistent and mounts.network are mutually exclusive")
        if "disk" not in body and "templateId" not in body:
            raise Trouble(400, "You must either provide a template id or pod configuration parameters")
        if "count" not in body["gpu"]:
            raise Trouble(400, NO_INSTANCES)
        if len(body.get("env", {})) > 50:
            raise Trouble(400, "too many environment variables")

    def _place(self, gpu: GpuType, body: dict[str, Any]) -> str | None:
        """Data centres are matched exactly: a name in lower case is one that does not exist."""
        wanted = body["gpu"].get("allowedCudaVersions") or []
        if wanted and not set(wanted) & set(gpu.cuda):
            return None
        if body.get("cloud") == "COMMUNITY":
            return "COMMUNITY" if gpu.community else None
        allowed = body.get("dataCenterIds") or list(gpu.free)
        return next((dc for dc in allowed if gpu.free.get(dc, 0) >= body["gpu"]["count"]), None)

    def _rent(self, body: dict[str, Any], where: str, rate: float, count: int, gpu: GpuType) -> FakePod:
        number = next(self._numbers)
        now = self.clock.now()
        pod = FakePod(f"pod{number:04d}x{number * 7919 % 9973:04d}", body, where, rate, now, now)
        pod.port, pod.gpus = 30_000 + number * 10, count
        if where in gpu.free:
            gpu.free[where] -= count
        self.pods[pod.id] = pod
        return pod

    def act(self, pod: FakePod, action: str) -> None:
        status = self.status(pod)
        if action not in ACTIONS[status]:
            raise Trouble(409, f"cannot {action} a pod that is {status}")
        {"start": self._start, "stop": self._stop, "restart": self._restart, "terminate": self.remove}[action](pod)

    def _start(self, pod: FakePod) -> None:
        if self.faults.host_full:
            raise Trouble(400, HOST_FULL)
        if self.balance < pod.rate:
            raise Trouble(402, LOW_BALANCE)
        pod.begun, pod.ended = self.clock.now(), None
        pod.old_port, pod.port = pod.port, pod.port + 1
        if self.faults.resume_without_gpu:
            pod.gpus = 0

    def _stop(self, pod: FakePod) -> None:
        if self.faults.take("stop_ignored"):
            return
        pod.ended = self.clock.now() + self.times.stopping
        pod.runs.append((pod.begun, pod.ended))

    def _restart(self, pod: FakePod) -> None:
        pod.container_since = self.clock.now()

    def remove(self, pod: FakePod) -> None:
        """Also what the console, or an empty balance, does behind our back."""
        if pod.ended is None:
            pod.runs.append((pod.begun, self.clock.now()))
        pod.terminated = True
        if pod.data_center in self.gpus[pod.body["gpu"]["id"]].free:
            self.gpus[pod.body["gpu"]["id"]].free[pod.data_center] += pod.body["gpu"]["count"]

    def migrate(self, pod_id: str) -> FakePod:
        """The console's "migrate": a pod of the same name with another id; the old one is gone."""
        old = self.pods[pod_id]
        self.remove(old)
        gpu = self.gpus[old.body["gpu"]["id"]]
        return self._rent(old.body, old.data_center, old.rate, old.gpus, gpu)

    def charge(self) -> None:
        """Take what ran since the last look off the balance; without any, pods stop, or are gone with their data."""
        now = self.clock.now()
        for pod in self.pods.values():
            end = min(now, pod.ended) if pod.ended is not None else now
            if not pod.terminated:
                self.balance -= max(0.0, end - max(self._charged_to, pod.begun)) * pod.rate / HOUR
        self._charged_to = now
        if self.balance <= 0:
            for pod in self.pods.values():
                if not pod.terminated and not pod.body.get("mounts", {}).get("network"):
                    self.remove(pod)
                elif not pod.terminated and pod.ended is None:
                    pod.ended = now

    def spending(self) -> float:
        return sum(p.rate for p in self.pods.values() if not p.terminated and self.status(p) != "EXITED")

    def bills(self, pod_id: str | None, begin: float, end: float, bucket: float) -> list[dict[str, Any]]:
        """Per pod and bucket, as far as billing has come."""
        until = min(end, self.clock.now() - self.faults.billing_lag_s)
        records = []
        for pod in self.pods.values():
            if pod_id is not None and pod.id != pod_id:
                continue
            runs = [*pod.runs, *([] if pod.ended is not None or pod.terminated else [(pod.begun, self.clock.now())])]
            at = begin - begin % bucket
            while at + bucket <= until:
                ran = sum(max(0.0, min(b, at + bucket) - max(a, at)) for a, b in runs)
                if ran:
                    records.append(_bill(pod.id, at, bucket, ran * pod.rate / HOUR))
                at += bucket
        return records


def _bill(pod_id: str, at: float, bucket: float, amount: float) -> dict[str, Any]:
    amounts = {"totalAmount": amount, "gpuAmount": amount, "cpuAmount": 0.0, "diskAmount": 0.0}
    return {"podId": pod_id, "startTime": iso(at), "endTime": iso(at + bucket), **amounts}


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
