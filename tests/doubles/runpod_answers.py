"""The double's pods and stock as REST v2 shows them."""

from __future__ import annotations

from typing import Any

from tests.doubles.runpod_cloud import ACTIONS, Cloud, FakePod, iso
from tests.doubles.runpod_faults import GpuType

HOST = "127.0.0.1"


def pod(cloud: Cloud, found: FakePod) -> dict[str, Any]:
    status = "TERMINATED" if found.terminated else cloud.status(found)
    body, age = found.body, cloud.clock.now() - found.begun
    up = status == "RUNNING" and not cloud.faults.no_runtime and age >= cloud.times.pulled
    port = found.old_port if found.old_port and age < cloud.times.pulled + cloud.faults.stale_ssh_s else found.port
    ssh = "22/tcp" in body.get("ports", []) and up
    gpu = {"gpu": {"id": body["gpu"]["id"], "count": found.gpus}} if found.gpus else {}
    user = f"{found.id}-64411eb2"
    direct = {"host": HOST, "port": port, "username": "root", "command": f"ssh root@{HOST} -p {port}"}
    proxy = {"host": "ssh.runpod.io", "port": 22, "username": user, "command": f"ssh {user}@ssh.runpod.io"}
    return gpu | {
        "id": found.id,
        "name": body["name"],
        "status": status,
        "actions": ACTIONS.get(status, []),
        "image": body.get("image", "runpod/base:1.0"),
        "args": body.get("args", ""),
        "disk": body.get("disk", 50),
        "mounts": body.get("mounts", {}),
        "ports": body.get("ports", []),
        "env": body.get("env", {}),
        "registry": body.get("registry"),
        "cloud": body.get("cloud", "SECURE"),
        "dataCenterId": None if status == "PROVISIONING" else found.data_center,
        "cudaVersion": None if status == "PROVISIONING" else "12.8",
        "ssh": {"proxy": None if status == "PROVISIONING" else proxy, "direct": direct if ssh else None},
        "template": None,
        "cost": 0.0 if status in ("EXITED", "TERMINATED") else found.rate,
        "locked": False,
        "globalNetworking": {"enabled": False},
        "runtime": _runtime(cloud, found, port) if up else None,
        "createdAt": iso(found.created),
        "startedAt": None if status == "PROVISIONING" else iso(found.begun),
    }


def _runtime(cloud: Cloud, found: FakePod, port: int) -> dict[str, Any]:
    began = found.container_since or found.begun + cloud.times.pulled
    return {
        "uptime": int(cloud.clock.now() - began),
        "gpus": [{"util": 0, "memoryUtil": 0}] * found.gpus,
        "cpu": {"util": 1},
        "memory": {"util": 2},
        "ports": [
            {"private": 8080, "public": 60_080, "type": "http", "ip": "100.65.0.12"},
            {"private": 22, "public": port, "type": "tcp", "ip": HOST},
        ],
    }


def gpu(found: GpuType, availability: bool, count: int, cloud: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": found.id,
        "name": found.id.removeprefix("NVIDIA "),
        "pool": None,
        "manufacturer": "UNKNOWN" if found.id == "unknown" else "NVIDIA",
        "memory": found.memory,
        "secure": found.secure > 0,
        "community": found.community > 0,
        "price": {"secure": found.secure, "community": found.community},
        "maxCount": {"secure": found.most, "community": found.most if found.community else 0},
    }
    if not availability:
        return shown
    free = {dc: n for dc, n in found.free.items() if n >= count} if cloud == "SECURE" else {}
    level = found.said or ("HIGH" if sum(free.values()) > 3 else "LOW" if free or cloud == "COMMUNITY" else "NONE")
    shown["availability"] = level
    if free:
        levels = [{"id": dc, "name": dc, "availability": "HIGH" if n > 3 else "LOW"} for dc, n in free.items()]
        shown["dataCenters"] = levels
        shown["cudaVersions"] = [{"version": version, "available": True} for version in found.cuda]
    return shown
