"""The pods' folders: whole files, private tokens, no path tricks."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from control.errors import NoSuchPod, Refused
from control.local.store import LocalPod, ProcessMark, Store
from control.models import PodId, Tokens

ID = PodId("local-0001")


def pod() -> LocalPod:
    return LocalPod(ID, 1.0, "simulated", ("vllm",), 8080, 0.74, supervisor=ProcessMark(7, 2.0))


def test_a_pod_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(pod())
    assert store.load(ID) == pod()
    assert store.ids() == (ID,)
    store.update(pod(), started_at=5.0)
    assert store.load(ID).started_at == 5.0


def test_tokens_are_for_their_owner_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save_tokens(ID, Tokens("a", "b"))
    path = store.folder(ID) / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert store.tokens(ID) == Tokens("a", "b")


@pytest.mark.parametrize("name", ["", "../other", "a/b", ".", "local_1", "a\0b"])
def test_an_id_is_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(NoSuchPod):
        Store(tmp_path).folder(PodId(name))


def test_a_pod_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPod) as caught:
        Store(tmp_path).load(ID)
    assert "passerelle pod create" in caught.value.remedy
    with pytest.raises(NoSuchPod):
        Store(tmp_path).tokens(ID)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(pod())
    (store.folder(ID) / "pod.json").write_text('{"id": 3}')
    with pytest.raises(Refused, match=r"pod\.json"):
        store.load(ID)


def test_a_socket_path_that_is_too_long_goes_to_the_temp_folder(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90)
    assert len(str(Store(deep).socket(ID))) <= 100
    assert Store(Path("/p")).socket(ID) == Path("/p/pods/local-0001/state/bootstrap.sock")


def test_remove_twice(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(pod())
    store.remove(ID)
    store.remove(ID)
    assert store.ids() == ()
