"""The operator's folder: where it is, whole files, two providers' pods side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.models import PodId
from control.store import Folders, home, write_whole


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "pod.json"
    write_whole(path, b"old", 0o644)
    with pytest.raises(TypeError):
        write_whole(path, "not bytes", 0o644)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["pod.json"]


def test_home_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.delenv("PASSERELLE_HOME")
    assert home().name == "passerelle"


def test_a_pod_belongs_to_the_provider_whose_file_its_folder_holds(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    assert folders.holding("rented.json") == ()
    write_whole(folders.folder(PodId("a1")) / "rented.json", b"{}", 0o600)
    write_whole(folders.folder(PodId("local-1")) / "pod.json", b"{}", 0o600)
    assert folders.holding("rented.json") == ("a1",)
    folders.remove(PodId("a1"))
    folders.remove(PodId("a1"))
    assert folders.holding("rented.json") == ()
