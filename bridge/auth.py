"""Who may ask what: bearer tokens, checked before anything else runs, and the id that every answer carries.

Plain ASGI: a BaseHTTPMiddleware would hide from the routes that their client has left.
"""

from __future__ import annotations

import hmac
import uuid
from collections.abc import Callable
from typing import Any, Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.config import Config
from bridge.errors import BridgeError, Forbidden, Unauthorized
from bridge.ledger import Ledger

Role = Literal["client", "operator"]
_OPEN = ("/healthz",)
_OPERATOR = "/pod/"


class Gate:
    """The client's token may chat, the operator's may do everything. While draining, no client is told to come back on
    the same connection."""

    def __init__(self, app: ASGIApp, config: Config, ledger: Ledger, draining: Callable[[], bool]) -> None:
        self._app = app
        self._draining = draining
        self._client = config.client_token.encode()
        self._operator = config.operator_token.encode()
        self._ledger = ledger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid.uuid4().hex[:24]}"
        scope.setdefault("state", {})["request_id"] = request_id

        async def identified(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"request-id", request_id.encode())]
                if self._draining():
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        if (refusal := self._refusal(scope)) is not None:
            self._ledger.counts.unauthorized += 1
            await _refuse(refusal, request_id, identified)
        else:
            await self._app(scope, receive, identified)

    def _refusal(self, scope: Scope) -> BridgeError | None:
        path = scope["path"]
        if path in _OPEN:
            return None
        role = self._role(_token(scope))
        if role is None:
            return Unauthorized("invalid or missing token (Authorization: Bearer, or x-api-key)")
        if path.startswith(_OPERATOR) and role != "operator":
            return Forbidden("this route takes the operator's token")
        return None

    def _role(self, token: bytes) -> Role | None:
        """Both are always compared, each in constant time."""
        operator = hmac.compare_digest(token, self._operator)
        client = hmac.compare_digest(token, self._client)
        return "operator" if operator else "client" if client else None


def _token(scope: Scope) -> bytes:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
    return bearer.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")


async def _refuse(error: BridgeError, request_id: str, send: Send) -> None:
    body = error.envelope(request_id)
    headers: list[Any] = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
