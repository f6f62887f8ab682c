"""The gate before the routes: who may ask what, and each request's id."""

import hmac
from collections.abc import Callable
from uuid import uuid4

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge import errors
from bridge.answer import JSON
from bridge.config import Config
from bridge.ledger import Ledger


# The client's token may chat, the operator's may do everything; every answer gets the id of its request, and while
# `closing` none invites to the same connection again. Plain ASGI: a BaseHTTPMiddleware would hide from the routes that
# their client has left.
def gate(app: ASGIApp, config: Config, ledger: Ledger, closing: Callable[[], bool]) -> ASGIApp:
    async def gated(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        request_id = f"req_{uuid4().hex[:24]}"
        scope.setdefault("state", {})["request_id"] = request_id

        async def identified(message: Message) -> None:
            if message["type"] == "http.response.start":
                last = [(b"connection", b"close")] if closing() else []
                message["headers"] = [*message["headers"], (b"request-id", request_id.encode()), *last]
            await send(message)

        refusal = _refusal(config, scope["path"], dict(scope["headers"]))
        ledger.counts["unauthorized"] += refusal is not None
        await (app if refusal is None else refused(refusal, request_id))(scope, receive, identified)

    return gated


# Both tokens are always compared, each in constant time.
def _refusal(config: Config, path: str, headers: dict[bytes, bytes]) -> errors.BridgeError | None:
    scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
    token = bearer.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
    operator = hmac.compare_digest(token, config.operator_token.encode())
    client = hmac.compare_digest(token, config.client_token.encode())
    if path == "/healthz" or config.insecure_no_auth or operator or (client and not path.startswith("/pod/")):
        return None
    if client:
        return errors.Forbidden("this route takes the operator's token")
    return errors.Unauthorized("invalid or missing token (Authorization: Bearer, or x-api-key)")


def refused(error: errors.BridgeError, request_id: str) -> Response:
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return Response(error.envelope(request_id), error.status, headers, JSON)
