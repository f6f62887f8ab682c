"""Pinned host keys: made once, kept by the pod's id, forgotten only by hand."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from control.errors import NoSuchPod, Refused
from control.hostkeys import HostKeys
from control.models import PodId

POD = PodId("k3v9x0q2ab")
LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q"


def test_pinned_once(tmp_path: Path) -> None:
    pins = HostKeys(tmp_path)
    assert pins.get(POD) is None
    assert pins.pin(POD, LINE + "\n") == LINE + "\n"
    assert pins.get(POD) == LINE
    assert stat.S_IMODE(pins.path(POD).stat().st_mode) == 0o600
    assert pins.pin(POD, "ssh-ed25519 BBBB") == LINE, "a second first contact does not move the pin"
    assert HostKeys(tmp_path).get(PodId("another")) is None


def test_forgotten_by_hand(tmp_path: Path) -> None:
    pins = HostKeys(tmp_path)
    assert pins.forget(POD) is False
    pins.pin(POD, LINE)
    assert pins.forget(POD) is True
    assert pins.get(POD) is None


@pytest.mark.parametrize("content", [b"", b"ssh-ed25519\n", b"\xff\xfe"])
def test_a_damaged_pin_is_said_and_never_taken_for_a_first_contact(tmp_path: Path, content: bytes) -> None:
    pins = HostKeys(tmp_path)
    pins.pin(POD, LINE)
    pins.path(POD).write_bytes(content)
    with pytest.raises(Refused, match="ssh_host_key") as caught:
        pins.get(POD)
    assert "--forget" in caught.value.remedy


def test_a_pods_id_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPod):
        HostKeys(tmp_path).get(PodId("../../etc"))
