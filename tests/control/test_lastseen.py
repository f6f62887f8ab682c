"""The last word of a pod: kept now and then, read back with its age, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.lastseen import EVERY_S, LastSeen
from control.models import PodId

POD = PodId("local-0001")
STATUS = {"serial": 3, "log": [{"seq": 1}], "log_next": 1}


@pytest.fixture
def memory(tmp_path: Path) -> LastSeen:
    (tmp_path / "pods" / POD).mkdir(parents=True)
    return LastSeen(tmp_path, POD)


def test_what_was_seen_is_read_back_without_its_log(memory: LastSeen, tmp_path: Path) -> None:
    assert memory.read() is None
    memory.see(STATUS, 100.0)
    memory.see(None, 101.0)
    assert LastSeen(tmp_path, POD).read() == ({"serial": 3, "log": [], "log_next": 1}, 100.0)


def test_not_at_each_poll(memory: LastSeen) -> None:
    memory.see(STATUS, 100.0)
    memory.see({**STATUS, "serial": 4}, 100.0 + EVERY_S - 1.0)
    assert memory.read() == ({**STATUS, "log": []}, 100.0)
    memory.see({**STATUS, "serial": 5}, 100.0 + EVERY_S)
    assert memory.read() == ({**STATUS, "serial": 5, "log": []}, 100.0 + EVERY_S)
    memory.see({**STATUS, "serial": 6}, 50.0)
    assert memory.read() == ({**STATUS, "serial": 6, "log": []}, 50.0), "a clock that was set back does not stop it"


def test_a_pod_that_was_removed_stays_gone(tmp_path: Path) -> None:
    LastSeen(tmp_path, POD).see(STATUS, 1.0)
    assert not (tmp_path / "pods").exists()


@pytest.mark.parametrize("text", [b"", b"{", b'{"at": "x"}', b"[]"])
def test_a_damaged_memory_is_none(memory: LastSeen, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "pods" / POD / "last_status.json").write_bytes(text)
    assert memory.read() is None


def test_a_disk_that_takes_nothing_is_no_error(memory: LastSeen, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("control.lastseen.write_whole", full)
    memory.see(STATUS, 1.0)
    assert memory.read() is None
