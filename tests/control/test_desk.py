"""Which store a pod has, which version is meant, and when code travels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from control import settings
from control.ctl import Request
from control.desk import Desk, ReachedPod, code_in, log_mirror, older, published_text, store_of
from control.errors import Refused, Unreachable, UsageError
from control.hub import Published, open_store
from control.hub_dir import DirStore
from control.models import Pod, PodId, PodState, Price
from control.publish import Publisher
from control.reach import Reach, Said, Via
from control.runpod.life import Record
from control.runpod.store import Store as RentedStore
from tests.control.pod_double import status
from tests.control.publishing import published
from tests.control.publishing_pod import POD, stopped_pod

RENTED = Pod(PodId("abc123"), "runpod", PodState.RUNNING, Price(0.5), "A40", None, 1.0, 1.0, 0.0)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    return tmp_path


def test_an_embedded_pods_store_is_its_folder(home: Path) -> None:
    assert store_of(replace(RENTED, id=POD, provider="local")) == f"dir://{home}/pods/{POD}/hub"


def test_a_rented_pods_store_is_its_own_then_the_usual_one(home: Path) -> None:
    with pytest.raises(Refused, match="it is not known where pod abc123 looks") as caught:
        store_of(RENTED)
    assert "--hub" in caught.value.remedy
    (home / settings.FILE).write_text('hub = "hf://datasets/me/usual"\n')
    assert store_of(RENTED) == "hf://datasets/me/usual"
    RentedStore(home).save(Record("abc123", hub="hf://datasets/me/pods/its-own"))
    assert store_of(RENTED) == "hf://datasets/me/pods/its-own"


def test_rented_pods_mirror_their_log_where_init_said_so(home: Path) -> None:
    assert log_mirror() is None
    (home / settings.FILE).write_text('log_mirror = "hf://datasets/me/logs"\n')
    assert log_mirror() == "hf://datasets/me/logs"
    (home / settings.FILE).write_text('log_mirror = "dir:///tmp/logs"\n')
    assert log_mirror() is None, "a rented pod does not reach a folder of this machine"


async def test_the_version_before_is_the_newest_that_has_another_text(tmp_path: Path) -> None:
    store = DirStore(str(tmp_path / "hub"))
    await store.make()
    with pytest.raises(Refused, match="no version before the newest"):
        await older(store, None)
    commits = []
    for name, body in (("pod.toml", b"1"), ("pod.toml", b"2"), ("other", b"x"), ("another", b"y")):
        commits.append(await store.publish({name: body}, (await store.read(())).commit, name))
    assert await older(store, None) == commits[0]
    assert await older(store, "3") == commits[2]
    assert await older(store, "nope") == "nope"
    with pytest.raises(UsageError):
        await older(store, "")


def test_code_travels_when_asked_or_when_there_is_none_yet() -> None:
    for url, first, wanted, expected in (
        ("dir:///x", True, False, False),
        ("dir:///x", False, True, True),
        ("hf://me/pods", True, False, True),
        ("hf://me/pods", False, False, False),
    ):
        store = open_store(url, None)
        desk = Desk(store, Publisher(store, "token", None), first)
        assert (desk.code(wanted) is not None) is expected


def test_the_code_of_a_version_is_its_hash_and_its_text() -> None:
    files = {name: data for name, data in published(1, "x").items() if data is not None}
    found = code_in(Published("c", files))
    assert found is not None
    assert found.text == files["passerelle.pyz.b64"]
    assert code_in(Published("c", {"pod.toml": files["pod.toml"]})) is None
    assert code_in(Published("c", {})) is None


async def test_a_pod_whose_store_does_not_say_has_no_text(home: Path) -> None:
    assert await published_text("nobody") is None
    stopped_pod(home)
    assert await published_text(POD) is None
    (home / "pods" / POD / "hub" / "pod.toml").write_text("[serve]\n")
    assert await published_text(POD) == "[serve]\n"


@dataclass
class _Way:
    """Answers a status that is that old."""

    age_s: float
    asked: list[Request] = field(default_factory=list)
    via: Via = Via.BRIDGE

    async def ask(self, request: Request) -> Said:
        self.asked.append(request)
        return Said({"status": msgspec.to_builtins(status(serial=7))}, self.age_s)


async def test_a_status_that_is_remembered_is_no_answer() -> None:
    way = _Way(0.2)
    pod = ReachedPod(Reach(POD, [way]))
    assert (await pod.status()).serial == 7
    await pod.look()
    assert way.asked[-1] == {"cmd": "apply"}
    with pytest.raises(Unreachable, match="its last word is 40 s old"):
        await ReachedPod(Reach(POD, [_Way(40.0)])).status()
