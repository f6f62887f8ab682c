"""A pod is found wherever it is: by its id, by its name, or because it is the only one."""

from __future__ import annotations

from pathlib import Path

import pytest

from control import providers
from control.errors import NoSuchPod, Refused, UsageError
from control.models import PodId
from control.runpod.life import Record
from control.runpod.store import Store


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return tmp_path


def test_without_anything_rented_runpod_is_left_alone(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert providers.in_use(account=True) == ("local",)
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_1")
    assert providers.in_use(account=False) == ("local",)
    assert providers.in_use(account=True) == ("local", "runpod")
    monkeypatch.delenv("RUNPOD_API_KEY")
    Store(home).save(Record("a1", "mine"))
    assert providers.in_use(account=False) == ("local", "runpod")


def test_whose_an_id_is(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert providers.provider_of(PodId("local-0001")).name == "local"
    assert providers.provider_of(PodId("7h9k2m")).name == "local", "without a key there is nobody else to ask"
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_1")
    assert providers.provider_of(PodId("7h9k2m")).name == "runpod"
    assert providers.provider_of(PodId("local-0001")).name == "local"


def test_a_rented_pod_without_a_key_says_what_is_missing(home: Path) -> None:
    Store(home).save(Record("a1", "mine"))
    with pytest.raises(Refused, match="no RunPod API key"):
        providers.provider_of(PodId("a1"))


def test_a_name_is_as_good_as_an_id_while_the_pod_is_there(home: Path) -> None:
    Store(home).save(Record("a1", "mine-1", gone_at=None))
    Store(home).save(Record("a2", "mine-2", gone_at=5.0))
    assert providers.named_here("mine-1") == "a1"
    assert providers.named_here("mine-2") is None


async def test_none_at_all_and_no_such_provider(home: Path) -> None:
    with pytest.raises(NoSuchPod, match="there is no pod"):
        await providers.find(None)
    with pytest.raises(UsageError, match="no provider"):
        providers.open_provider("aws")
