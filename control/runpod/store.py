"""The files of the rented pods: what is known of each. No secret is in them.

HOME/pods/ID/rented.json   control.runpod.life.Record
"""

from __future__ import annotations

import msgspec

from control.errors import NoSuchPod, Refused
from control.models import PodId
from control.runpod.life import Record
from control.store import Folders, write_whole

FILE = "rented.json"


class Store(Folders):
    """Raises Refused for a file that cannot be read."""

    def ids(self) -> tuple[PodId, ...]:
        return self.holding(FILE)

    def known(self, pod_id: PodId) -> Record | None:
        path = self.folder(pod_id) / FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise Refused(f"{path}: {error}", f"adopt it anew: passerelle pod adopt {pod_id}") from error

    def load(self, pod_id: PodId) -> Record:
        record = self.known(pod_id)
        if record is None:
            raise NoSuchPod(
                f"pod {pod_id} is not known on this machine", f"take it over: passerelle pod adopt {pod_id}"
            )
        return record

    def records(self) -> tuple[Record, ...]:
        return tuple(self.load(pod_id) for pod_id in self.ids())

    def save(self, record: Record) -> None:
        data = msgspec.json.format(msgspec.json.encode(record))
        write_whole(self.folder(PodId(record.id)) / FILE, data, 0o600)
