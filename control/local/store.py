"""The files of the embedded pods: one folder each, written whole or not at all.

HOME/pods/local-3f2a/pod.json      what the provider knows of it
                     tokens.json   its two tokens (0600)
                     hub/pod.toml  its published configuration: the folder is its Hub (dir://)
                     state/        the supervisor's own: socket, logs
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from control.errors import NoSuchPod, Refused
from control.models import PodId, Tokens
from control.store import CREATE, Folders, write_whole


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process that cannot be mistaken for a later one of the same pid."""

    pid: int
    created: float
    """psutil's create_time, Unix seconds."""


@dataclass(frozen=True, slots=True)
class LocalPod:
    """pod.json. Times are Unix seconds."""

    id: str
    created_at: float
    engine: str
    """ "simulated" or "vllm"."""
    vllm: tuple[str, ...]
    """argv prefix of the engine program."""
    port: int
    price_per_hour: float
    started_at: float | None = None
    ended_at: float | None = None
    billed_s: float = 0.0
    supervisor: ProcessMark | None = None
    stop_asked_at: float | None = None
    family: tuple[ProcessMark, ...] = ()
    """Every process of the pod when its stop was asked; EXITED is said only when all are gone."""


class Store(Folders):
    """The folders of the embedded pods under HOME/pods."""

    def hub(self, pod_id: PodId) -> Path:
        return self.folder(pod_id) / "hub"

    def state(self, pod_id: PodId) -> Path:
        return self.folder(pod_id) / "state"

    def socket(self, pod_id: PodId) -> Path:
        """In the pod's folder, or in the temp folder when that path is too long for a unix socket (108 bytes)."""
        inside = self.state(pod_id) / "bootstrap.sock"
        if len(os.fsencode(inside)) <= 100:
            return inside
        return Path(tempfile.gettempdir()) / f"passerelle-{pod_id}.sock"

    def ids(self) -> tuple[PodId, ...]:
        return self.holding("pod.json")

    def load(self, pod_id: PodId) -> LocalPod:
        path = self.folder(pod_id) / "pod.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=LocalPod)
        except FileNotFoundError as error:
            raise NoSuchPod(f"there is no local pod {pod_id}", f"see `passerelle pod list`; {CREATE}") from error
        except (OSError, msgspec.DecodeError) as error:
            raise Refused(f"{path}: {error}", f"remove the pod: passerelle pod terminate {pod_id}") from error

    def save(self, pod: LocalPod) -> None:
        write_whole(self.folder(PodId(pod.id)) / "pod.json", msgspec.json.format(msgspec.json.encode(pod)), 0o644)

    def update(self, pod: LocalPod, **changes: object) -> LocalPod:
        changed = replace(pod, **changes)  # type: ignore[arg-type]
        self.save(changed)
        return changed

    def tokens(self, pod_id: PodId) -> Tokens:
        path = self.folder(pod_id) / "tokens.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Tokens)
        except FileNotFoundError as error:
            raise NoSuchPod(f"there is no local pod {pod_id}", CREATE) from error
        except (OSError, msgspec.DecodeError) as error:
            raise Refused(f"{path}: {error}", f"remove the pod: passerelle pod terminate {pod_id}") from error

    def save_tokens(self, pod_id: PodId, tokens: Tokens) -> None:
        write_whole(self.folder(pod_id) / "tokens.json", msgspec.json.encode(tokens), 0o600)

    def remove(self, pod_id: PodId) -> None:
        super().remove(pod_id)
        self.socket(pod_id).unlink(missing_ok=True)
