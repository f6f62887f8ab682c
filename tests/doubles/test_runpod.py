"""The double's own checks: RunPod's OpenAPI file finds no fault with it, and it refuses what RunPod refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.doubles import openapi
from tests.doubles.clock import ManualClock
from tests.doubles.runpod import KEY, RunPodDouble
from tests.doubles.runpod_faults import HOUR

GOOD: dict[str, Any] = {
    "name": "a",
    "image": "vllm/vllm-openai:v0.27.1",
    "gpu": {"id": "NVIDIA A40", "count": 1},
    "disk": 50,
    "ports": ["8080/http", "22/tcp"],
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def double(clock: ManualClock) -> Iterator[RunPodDouble]:
    with RunPodDouble(clock) as made:
        yield made
        assert made.violations == []


@pytest.fixture
def http(double: RunPodDouble) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {KEY}", "user-agent": "test"}
    with httpx.Client(base_url=double.url, headers=headers, trust_env=False) as client:
        yield client


def test_the_judge_finds_what_is_wrong() -> None:
    at = openapi.operation("GET", "/v2/pods/abc")
    assert at is not None
    assert at.path == "/v2/pods/{id}"
    assert openapi.response_errors(at, 200, "application/json", b'{"id": "a"}') != []
    assert openapi.response_errors(at, 200, "text/html", b"<p>") != []
    assert openapi.response_errors(at, 404, "application/problem+json", b'{"status": "404"}') != []
    good = b'{"title": "Not Found", "status": 404, "detail": "resource not found"}'
    assert openapi.response_errors(at, 404, "application/problem+json", good) == []
    assert openapi.response_errors(at, 502, "application/problem+json", good) == [], "the default answer"
    create = openapi.operation("POST", "/v2/pods")
    assert create is not None
    assert openapi.request_errors(create, GOOD) == []
    assert any("dataCenterId" in error for error in openapi.request_errors(create, GOOD | {"dataCenterId": "US"}))
    assert openapi.operation("GET", "/v2/billing/pods") == openapi.operation("get", "/v2/billing/pods")
    assert openapi.operation("GET", "/v9/pods") is None


def test_a_pods_whole_life_as_documented(http: httpx.Client, clock: ManualClock, double: RunPodDouble) -> None:
    pod = http.post("/v2/pods", json=GOOD)
    assert (pod.status_code, pod.json()["status"], pod.json()["runtime"]) == (201, "PROVISIONING", None)
    where = f"/v2/pods/{pod.json()['id']}"
    seen = []
    for seconds in (6, 20, 10, 60):
        clock.pass_(seconds)
        got = http.get(where).json()
        seen.append((got["status"], got["runtime"] is not None, got["ssh"]["direct"] is not None))
    assert seen == [
        ("STARTING", False, False),
        ("STARTING", False, False),
        ("RUNNING", False, False),
        ("RUNNING", True, True),
    ]
    port = got["ssh"]["direct"]["port"]
    assert http.post(f"{where}/action", json={"action": "start"}).status_code == 409
    assert http.post(f"{where}/action", json={"action": "stop"}).json()["status"] == "RUNNING"
    clock.pass_(10)
    stopped = http.get(where).json()
    assert (stopped["status"], stopped["cost"], stopped["actions"]) == ("EXITED", 0.0, ["start", "terminate"])
    assert http.post(f"{where}/action", json={"action": "start"}).status_code == 200
    clock.pass_(100)
    assert http.get(where).json()["ssh"]["direct"]["port"] != port
    assert http.delete(where).status_code == 204
    assert http.get(where).status_code == 404
    assert http.delete(where).status_code == 404
    assert http.get("/v2/pods").json() == {"pods": []}


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"dataCenterId": "US-KS-2"}, 422, "dataCenterId"),
        ({"name": ""}, 422, "name"),
        ({"gpu": {"id": "NVIDIA A40", "count": 1, "allowedCudaVersions": ["12"]}}, 422, "allowedCudaVersions"),
        ({"gpu": {"id": "NVIDIA A40"}}, 400, "no longer any instances"),
        ({"gpu": {"id": "NVIDIA A40", "count": 8}}, 400, "no longer any instances"),
        ({"dataCenterIds": ["eu-se-1"]}, 400, "no longer any instances"),
        ({"disk": None}, 400, "template id or pod configuration"),
        ({"mounts": {"persistent": {"size": 5, "path": "/w"}}}, 422, "minimum"),
        ({"env": {str(n): "" for n in range(51)}}, 400, "too many"),
    ],
)
def test_what_runpod_refuses(http: httpx.Client, change: dict[str, Any], status: int, words: str) -> None:
    body = {key: value for key, value in (GOOD | change).items() if value is not None}
    got = http.post("/v2/pods", json=body)
    assert got.status_code == status
    assert words in got.text


def test_the_key_the_agent_and_the_limit(double: RunPodDouble) -> None:
    with httpx.Client(base_url=double.url, trust_env=False) as bare:
        assert bare.get("/v2/pods").status_code == 401
        blocked = bare.get("/v2/pods", headers={"user-agent": "Python-urllib/3.11"})
        assert (blocked.status_code, blocked.text) == (403, "error code: 1010")
        double.cloud.faults.limited = 1
        limited = bare.get("/v2/pods", headers={"authorization": f"Bearer {KEY}"})
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
        assert "r=58" in bare.get("/v2/pods", headers={"authorization": f"Bearer {KEY}"}).headers["ratelimit"]


def test_money_runs_out_and_takes_the_pods_along(http: httpx.Client, clock: ManualClock, double: RunPodDouble) -> None:
    double.cloud.balance = 1.0
    http.post("/v2/pods", json=GOOD)
    clock.pass_(HOUR)
    ask = {"query": "query { myself { clientBalance currentSpendPerHr spendLimit } }"}
    me = http.post("/graphql", json=ask).json()["data"]["myself"]
    assert me == {"clientBalance": pytest.approx(0.56), "currentSpendPerHr": 0.44, "spendLimit": 80.0}
    clock.pass_(2 * HOUR)
    assert http.get("/v2/pods").json() == {"pods": []}
    assert http.post("/v2/pods", json=GOOD).status_code == 402
    assert http.post("/graphql", json={"query": "query { myself { clientBalnce } }"}).json()["data"] is None


def test_bills_come_late_and_by_the_hour(http: httpx.Client, clock: ManualClock, double: RunPodDouble) -> None:
    pod = http.post("/v2/pods", json=GOOD).json()
    clock.pass_(5 * HOUR)
    got = http.get("/v2/billing/pods", params={"podId": pod["id"], "bucketSize": "hour"}).json()
    amounts = [record["totalAmount"] for record in got["records"]]
    assert len(amounts) == 3
    assert amounts[1:] == pytest.approx([0.44, 0.44])
    assert got["metadata"]["totals"]["totalAmount"] == pytest.approx(sum(amounts))


def test_the_log_goes_on_after_the_last_event(http: httpx.Client, double: RunPodDouble) -> None:
    pod = http.post("/v2/pods", json=GOOD).json()
    double.cloud.lines = ["one", "two", "three"]
    where = f"/v2/pods/{pod['id']}/logs"
    assert next(line for line in http.get(where).text.split("\n") if line.startswith("data")).endswith('"one"}')
    rest = http.get(where, headers={"last-event-id": "2026-11-30T00:00:00Z/000000000002"}).text
    assert "three" in rest
    assert "two" not in rest


def test_what_the_catalogue_offers(http: httpx.Client) -> None:
    assert http.get("/v2/catalog/gpus", params={"include": "AVAILABILITY"}).status_code == 400
    got = http.get("/v2/catalog/gpus", params={"include": "AVAILABILITY", "product": "POD", "count": "2"}).json()
    levels = {gpu["id"]: gpu["availability"] for gpu in got["gpus"]}
    assert levels["NVIDIA A40"] == "HIGH"
    assert levels["NVIDIA H100 80GB HBM3"] == "NONE"
