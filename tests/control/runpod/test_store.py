"""What is known of rented pods, as files: read back as it was, no secret in it, damage named."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from control.errors import NoSuchPod, Refused
from control.models import PodId, Span, SshAddress
from control.runpod.life import Record
from control.runpod.store import Store

FULL = Record(
    "a1", "n", 1.0, True, True, (Span("compute", 1.0, 2.0, 0.44),), ssh=SshAddress("h", 22, "root"), budget=5.0
)


def test_a_record_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(FULL)
    assert store.load(PodId("a1")) == FULL
    assert store.records() == (FULL,)
    assert stat.S_IMODE((store.folder(PodId("a1")) / "rented.json").stat().st_mode) == 0o600


def test_what_is_not_known_or_damaged_says_what_to_do(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.known(PodId("a1")) is None
    with pytest.raises(NoSuchPod) as caught:
        store.load(PodId("a1"))
    assert "pod adopt a1" in caught.value.remedy
    store.save(FULL)
    (store.folder(PodId("a1")) / "rented.json").write_text('{"id": 3}')
    with pytest.raises(Refused, match=r"rented\.json"):
        store.known(PodId("a1"))
