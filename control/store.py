"""Where this operator's state lives: one folder per pod, files written whole or not at all.

HOME/pods/ID/…        what is known of a pod; which files, its provider says (control.local.store, control.runpod.store)
HOME/secrets.json     what the system's keyring could not take (control.keys)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

from control.errors import NoSuchPod
from control.models import PodId

CREATE = "create one with `passerelle pod create`, or try the demo: `passerelle demo`"


def home() -> Path:
    """PASSERELLE_HOME, else the platform's place for a user's state."""
    named = os.environ.get("PASSERELLE_HOME")
    return Path(named) if named else platformdirs.user_state_path("passerelle", appauthor=False)


class Folders:
    """HOME/pods. Two providers' pods share it: an id is unique, and each knows its own by the file that it keeps."""

    def __init__(self, home: Path) -> None:
        self.root = home / "pods"

    def folder(self, pod_id: PodId) -> Path:
        """Raises NoSuchPod for an id that is not a plain name (no path tricks)."""
        if not pod_id or any(not (c.isalnum() or c == "-") for c in pod_id):
            raise NoSuchPod(f"{pod_id!r} is no pod id", "see them with `passerelle pod list`")
        return self.root / pod_id

    def holding(self, name: str) -> tuple[PodId, ...]:
        """Ids of the pods whose folder holds a file of that name."""
        if not self.root.is_dir():
            return ()
        return tuple(PodId(p.name) for p in sorted(self.root.iterdir()) if (p / name).is_file())

    def remove(self, pod_id: PodId) -> None:
        """The folder with everything in it. Idempotent."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder(pod_id))


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Replace `path` by `data`, so that a reader or a crash never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
