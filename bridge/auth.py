"""Who may ask what: bearer tokens, checked before anything else runs, and the id that every answer carries.

Plain ASGI: a BaseHTTPMiddleware would hide from the routes that their client has left.
"""

import hmac
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.config import Config
from bridge.errors import BridgeError, Forbidden, Unauthorized
from bridge.ledger import Ledger


@dataclass
class Gate:
    """The client's token may chat, the operator's may do everything. While draining, no client is told to come back on
    the same connection."""

    app: ASGIApp
    config: Config
    ledger: Ledger
    draining: Callable[[], bool]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request_id = f"req_{uuid.uuid4().hex[:24]}"
        scope.setdefault("state", {})["request_id"] = request_id

        async def identified(message: Message) -> None:
            if message["type"] == "http.response.start":
                closing = [(b"connection", b"close")] if self.draining() else []
                message["headers"] = [*message["headers"], (b"request-id", request_id.encode()), *closing]
            await send(message)

        answer = self.app
        if (refusal := self._refusal(scope["path"], dict(scope["headers"]))) is not None:
            self.ledger.counts["unauthorized"] += 1
            answer = refused(refusal, request_id)
        await answer(scope, receive, identified)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> BridgeError | None:
        """Both tokens are always compared, each in constant time."""
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        token = bearer.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        operator = hmac.compare_digest(token, self.config.operator_token.encode())
        client = hmac.compare_digest(token, self.config.client_token.encode())
        if path == "/healthz" or operator or (client and not path.startswith("/pod/")):
            return None
        if client:
            return Forbidden("this route takes the operator's token")
        return Unauthorized("invalid or missing token (Authorization: Bearer, or x-api-key)")


def refused(error: BridgeError, request_id: str) -> Response:
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return Response(error.envelope(request_id), error.status, headers, "application/json")
