"""What is sent again and what never is, and that no answer leaks a secret."""

from __future__ import annotations

import pytest

from control.errors import Unreachable
from control.models import PodId
from control.runpod import client as client_module
from control.runpod.client import Access, Client
from control.runpod.problems import Ambiguous, BadRequest, EdgeBlocked, Limited
from tests.control.runpod.conftest import A40
from tests.doubles.clock import ManualClock
from tests.doubles.runpod import KEY, RunPodDouble

BODY = {"name": "n", "image": "i", "gpu": {"id": A40, "count": 1}, "disk": 5}


@pytest.fixture
def client(double: RunPodDouble, clock: ManualClock) -> Client:
    return Client(Access(KEY, double.url), clock)


async def test_a_read_is_tried_three_times_a_creation_once(client: Client, double: RunPodDouble) -> None:
    double.cloud.faults.gateway = 2
    await client.pods()
    assert len(double.asked("GET", "/v2/pods")) == 3
    double.cloud.faults.gateway = 1
    with pytest.raises(Ambiguous):
        await client.create(BODY, ())
    assert len(double.asked("POST", "/v2/pods")) == 1


async def test_a_limit_that_does_not_end_is_said(client: Client, double: RunPodDouble, clock: ManualClock) -> None:
    double.cloud.faults.limited = 100
    with pytest.raises(Limited, match="HTTP 429"):
        await client.pods()
    assert len(clock.slept) == client_module.WAITS_FOR_LIMIT


async def test_a_secret_that_comes_back_in_an_error_is_masked(client: Client, double: RunPodDouble) -> None:
    with pytest.raises(BadRequest) as caught:
        await client.create(BODY | {"hf_planted_value": 1}, ("hf_planted_value",))
    assert "additional" in caught.value.message.lower() or "unevaluated" in caught.value.message.lower()
    assert "hf_planted_value" not in caught.value.message


async def test_a_block_on_the_way_is_not_a_bad_key(
    client: Client, double: RunPodDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "USER_AGENT", "Python-urllib/3.11")
    with pytest.raises(EdgeBlocked, match="1010"):
        await client.pods()


async def test_a_log_that_stays_open_ends_when_nothing_comes(client: Client, double: RunPodDouble) -> None:
    pod = PodId(double.cloud.create(BODY).id)
    got = [data async for data in client.log(pod, tail=10, source=None, follow=False)]
    assert got == [b'{"ts": "2026-11-30T00:00:00Z", "source": "container", "line": "Model loaded."}']


def test_where_runpod_is_comes_from_one_setting() -> None:
    assert Access.of("k", {}).api == "https://api.runpod.io"
    assert Access.of("k", {"RUNPOD_API_BASE_URL": "http://127.0.0.1:1/"}).api == "http://127.0.0.1:1"
    assert Access.of("k", {"PASSERELLE_RUNPOD_PROXY": "http://{id}.{port}"}).proxy == "http://{id}.{port}"
    assert "planted" not in repr(Access("rpa_planted"))


async def test_nobody_there(clock: ManualClock) -> None:
    with pytest.raises(Unreachable, match="cannot reach RunPod"):
        await Client(Access("k", "http://127.0.0.1:9"), clock).pods()
