"""The SSH host key of each pod, as it was at the first contact: HOME/pods/ID/ssh_host_key, one OpenSSH line.

Kept by the pod's id, not by its address: a restart gives a pod another port, and another pod may get its old one.
"""

from __future__ import annotations

import os
from pathlib import Path

from control.errors import Refused
from control.models import PodId
from control.store import Folders


class HostKeys:
    """The pins under one HOME. A pin is made once, changed never, and forgotten only by hand or with its pod."""

    def __init__(self, home: Path) -> None:
        self._folders = Folders(home)

    def path(self, pod_id: PodId) -> Path:
        return self._folders.folder(pod_id) / "ssh_host_key"

    def get(self, pod_id: PodId) -> str | None:
        """The pinned key ("ssh-ed25519 AAAA…"); None before the first contact. Raises Refused for a damaged file."""
        path = self.path(pod_id)
        try:
            line = path.read_text("ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"{path}: {error}", _forget(pod_id)) from error
        if len(line.split()) < 2:
            raise Refused(f"{path} holds no host key", _forget(pod_id))
        return line

    def pin(self, pod_id: PodId, line: str) -> str:
        """Pin the key of a first contact. Returns the pin in force: of two contacts at once the first one's stays."""
        path = self.path(pod_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(line.strip() + "\n")
        except FileExistsError:
            return self.get(pod_id) or line
        return line

    def forget(self, pod_id: PodId) -> bool:
        """True when there was a pin."""
        path = self.path(pod_id)
        known = path.exists()
        path.unlink(missing_ok=True)
        return known


def _forget(pod_id: PodId) -> str:
    return f"forget it and pin the next one: passerelle ssh-key {pod_id} --forget"
