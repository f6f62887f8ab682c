"""REST v2's JSON: what the specification promises and what the service really says."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.models import SshAddress
from control.runpod import wire
from tests.control.runpod.conftest import HF, TOKENS, order
from tests.doubles import openapi

MINIMAL = b'{"id": "a1", "name": "n", "status": "RUNNING"}'


def document_example() -> bytes:
    """The pod of RunPod's own documentation."""
    examples = openapi.document()["paths"]["/v2/pods"]["get"]["responses"]["200"]["content"]["application/json"]
    found: Any = next(iter(examples["examples"].values()))["value"] if "examples" in examples else examples["example"]
    return json.dumps(found).encode()


def test_the_pods_of_runpods_own_documentation_are_read() -> None:
    assert wire.pods(document_example())


def test_an_answer_with_next_to_nothing_is_a_pod() -> None:
    answer = wire.pod(MINIMAL)
    assert (answer.cost, answer.runtime, wire.ssh_address(answer)) == (None, None, None)
    assert not wire.Runtime().alive, "an empty runtime comes before the container runs"


def test_ssh_from_the_block_or_from_the_ports() -> None:
    port = {"private": 22, "public": 4001, "type": "tcp", "ip": "1.2.3.4"}
    http = {"private": 8080, "public": 1, "type": "http", "ip": "100.65.0.1"}
    base = json.loads(MINIMAL)
    by_ports = wire.pod(json.dumps(base | {"runtime": {"ports": [http, port]}}).encode())
    assert wire.ssh_address(by_ports) == SshAddress("1.2.3.4", 4001, "root")
    direct = {"host": "5.6.7.8", "port": 22022, "username": "root", "command": "ssh"}
    by_block = wire.pod(json.dumps(base | {"ssh": {"proxy": None, "direct": direct}}).encode())
    assert wire.ssh_address(by_block) == SshAddress("5.6.7.8", 22022, "root")


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"pods": 3}', b'{"id": 3}', b"\xff\xfe"])
def test_what_is_no_answer(body: bytes) -> None:
    for reader in (wire.pod, wire.pods):
        with pytest.raises(wire.WireError):
            reader(body)


@given(st.binary(max_size=120))
def test_garbage_is_an_error_of_ours_or_nothing(body: bytes) -> None:
    for reader in (wire.pod, wire.pods, wire.next_cursor, wire.log_line):
        with contextlib.suppress(wire.WireError):
            reader(body)


def test_pages_if_there_are_any() -> None:
    assert wire.next_cursor(b'{"pods": []}') is None
    assert wire.next_cursor(b'{"pods": [], "pagination": {"nextCursor": "c", "hasNextPage": true}}') == "c"
    assert wire.next_cursor(b'{"pods": [], "pagination": {"nextCursor": "c", "hasNextPage": false}}') is None


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-06-01T12:00:00Z", 1_780_315_200.0),
        ("2026-06-01T14:00:00+02:00", 1_780_315_200.0),
        ("x", None),
        (None, None),
    ],
)
def test_times(text: str | None, at: float | None) -> None:
    assert wire.unix(text) == at
    assert wire.rfc3339(1_780_315_200.0) == "2026-06-01T12:00:00Z"


def test_a_request_as_documented_and_as_shown() -> None:
    from control.models import Offer
    from control.runpod.offers import Attempt

    attempt = Attempt(Offer("NVIDIA A40", 2, 48, "SECURE", (), 0.88, "HIGH"), "eu-se-1")
    wanted = order(count=2, cuda=("12.8",), network_volume="vol1", registry="reg1", args="x", hub="hf://me/x")
    body = wire.create_body(wanted, "n", attempt.offer, attempt.data_center)
    create = openapi.operation("POST", "/v2/pods")
    assert create is not None
    assert openapi.request_errors(create, body) == []
    assert body["gpu"] == {"id": "NVIDIA A40", "count": 2, "allowedCudaVersions": ["12.8"]}
    assert body["dataCenterIds"] == ["EU-SE-1"], "RunPod wants capitals"
    assert body["mounts"] == {"network": [{"volumeId": "vol1", "path": "/workspace"}]}
    shown = json.dumps(wire.shown(body))
    for secret in (TOKENS.client, TOKENS.operator, HF):
        assert secret not in shown
    assert "hf://me/x" in shown
