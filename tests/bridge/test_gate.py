from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.config import Config
from bridge.gate import gate
from bridge.ledger import Ledger

GATED = Config(engine_url="http://e", client_token="cli-tok", operator_token="op-tok")


async def knock(path: str, *headers: tuple[bytes, bytes]) -> tuple[int, dict[bytes, bytes], bytes, Ledger]:
    """Status, headers and body of one request through the gate to an application that always says 200."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["state"]["request_id"].encode()})

    async def receive() -> Any:
        raise AssertionError("the gate must not read the body")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    ledger = Ledger(1)
    await gate(application, GATED, ledger, lambda: path == "/draining")(
        {"type": "http", "path": path, "headers": list(headers)}, receive, send
    )
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"], ledger


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/v1/messages", (b"x-api-key", b"cli-tok"), 200),
        ("/v1/messages", (b"authorization", b"Bearer cli-tok"), 200),
        ("/v1/messages", (b"authorization", b"bearer op-tok"), 200),
        ("/v1/messages", (b"authorization", b"Basic cli-tok"), 401),
        ("/v1/messages", (b"x-api-key", b"cli-to"), 401),
        ("/v1/messages", (b"x-api-key", b""), 401),
        ("/v1/messages", (b"x-api-key", b"\xff\xfe"), 401),
        ("/metrics", (b"cookie", b"x"), 401),
        ("/nope", (b"cookie", b"x"), 401),
        ("/pod/report", (b"x-api-key", b"cli-tok"), 403),
        ("/pod/report", (b"x-api-key", b"op-tok"), 200),
        ("/healthz", (b"cookie", b"x"), 200),
        ("/draining", (b"x-api-key", b"cli-tok"), 200),
        ("/healthz/", (b"cookie", b"x"), 401),
    ],
)
async def test_who_may_ask_what(path: str, header: tuple[bytes, bytes], status: int) -> None:
    got, headers, body, ledger = await knock(path, header)
    assert got == status
    assert headers[b"request-id"].startswith(b"req_")
    assert (b"connection" in headers) == (path == "/draining")
    assert ledger.counts["unauthorized"] == (status != 200)
    if status == 200:
        assert body == headers[b"request-id"]
    else:
        error = json.loads(body)
        assert error["error"]["type"] == {401: "authentication_error", 403: "permission_error"}[status]
        assert error["request_id"].encode() == headers[b"request-id"]
        assert b"tok" not in body.replace(b"token", b"")


async def test_where_nobody_is_asked_for_a_token_everybody_may_steer() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        raise AssertionError("the gate must not read the body")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    open_ = Config(engine_url="http://e", client_token="", operator_token="", insecure_no_auth=True)
    for headers in ([], [(b"x-api-key", b"any")]):
        scope = {"type": "http", "path": "/pod/report", "headers": headers}
        await gate(application, open_, Ledger(1), lambda: False)(scope, receive, send)
    assert [message["status"] for message in sent] == [200, 200]
