"""The only file with routes, and the gate before them: request -> exchange or answer, error -> its envelope."""

import asyncio
import hmac
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge import errors, metrics, request
from bridge.config import VERSION, Config
from bridge.exchange import Exchange, unless_gone
from bridge.ledger import Ledger, Record
from bridge.names import Names
from bridge.report import PodReport
from bridge.turn import JSON, Relay, Turn
from bridge.upstream import Supervisor, Upstream

MAX_BODY = 64 * 1024 * 1024  # of a request; a million tokens of text are about 4 MB, images make a body large
RESTART_S = 5.0
NO_LOG = 2**53  # a `log_after` beyond any line


class Service:
    """Everything one bridge process holds. `sockets` counts the TCP connections that clients hold open."""

    def __init__(self, config: Config, sockets: Callable[[], int]) -> None:
        self._config = config
        self._sockets = sockets
        self._names = Names({"": config.model_names}, "", config.unknown_model)
        self._ledger = Ledger(config.max_streams)
        self._upstream = Upstream(config.engine_url)
        self._supervisor = Supervisor(config.bootstrap_socket)
        self._exchanges: set[Exchange] = set()
        self.draining = False
        self._started = time.monotonic()
        self._started_at = time.time()

    def app(self) -> FastAPI:
        app = FastAPI(openapi_url=None, lifespan=self._lifespan)
        app.add_middleware(Gate, config=self._config, ledger=self._ledger, draining=lambda: self.draining)
        for kind in (errors.BridgeError, HTTPException, ClientDisconnect, Exception):
            app.add_exception_handler(kind, self._on_error)
        app.post("/v1/messages")(self.messages)
        app.post("/v1/messages/count_tokens")(self.count_tokens)
        app.get("/v1/models")(self.models)
        for path in ("/v1/chat/completions", "/v1/completions", "/tokenize"):
            app.post(path)(self.relay)
        app.get("/healthz")(self.healthz)
        app.get("/metrics")(self.metrics)
        app.get("/pod/report")(self.pod_report)
        app.post("/pod/restart")(self.pod_restart)
        return app

    def abort(self) -> None:
        for exchange in tuple(self._exchanges):
            exchange.abort(errors.Draining("the bridge was stopped before this answer was complete"))

    async def messages(self, http: Request) -> Response:
        body = await _body(http)
        engine = request.translate(body, model=self._names.resolve(body.get("model")).name, effort=self._config.effort)
        turn = Turn(_record(http, body, engine, "msg"), self._config.ping_seconds)
        return Exchange(turn, self._upstream.chat(engine), self._ledger, self._exchanges)

    async def relay(self, http: Request) -> Response:
        body = await _body(http)
        engine = body | {"model": self._names.resolve(body.get("model")).name}
        answer = Relay(_record(http, body, engine, "relay"))
        return Exchange(answer, self._upstream.stream(http.url.path, engine), self._ledger, self._exchanges)

    async def count_tokens(self, http: Request) -> Response:
        body = await _body(http)
        engine = request.count(body, model=self._names.resolve(body.get("model")).name)
        return _json({"input_tokens": await unless_gone(http.receive, self._upstream.count(engine)) or 0})

    async def models(self, http: Request) -> Response:
        window = self._upstream.max_model_len
        if "anthropic-version" not in http.headers:
            return _json(self._names.openai_list(int(self._started_at), window))
        started = datetime.fromtimestamp(self._started_at, UTC)
        return _json(self._names.anthropic_list(started.strftime("%Y-%m-%dT%H:%M:%SZ"), window, http.query_params))

    async def healthz(self) -> Response:
        return _json({"status": "ok", "version": VERSION})

    async def metrics(self) -> Response:
        try:
            engine = await self._upstream.metrics()
        except errors.BridgeError:
            engine = ""
        supervised, _ = await self._supervisor.status(NO_LOG)
        restarts = (supervised or {}).get("bridge", {}).get("restarts")
        ours = metrics.Ours(self._ledger, self._ledger.connections(self._sockets()), self._started_at, restarts)
        return Response(engine.encode() + ours.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def pod_report(self, http: Request) -> Response:
        asked = http.query_params.get("log_after", "0")
        if not asked.isdecimal():
            raise errors.InvalidRequest("log_after: Input should be a whole number")
        async with asyncio.TaskGroup() as group:
            engine = group.create_task(self._upstream.probe())
            supervised = group.create_task(self._supervisor.status(int(asked)))
        now, (bootstrap, bootstrap_error) = time.monotonic(), supervised.result()
        report = PodReport(
            version=VERSION,
            at=time.time(),
            pid=os.getpid(),
            uptime_s=now - self._started,
            connections=self._ledger.connections(self._sockets()),
            totals=self._ledger.totals(),
            turns=self._ledger.turns(now),
            agents=self._ledger.agents(now),
            engine=engine.result(),
            bootstrap=bootstrap,
            bootstrap_error=bootstrap_error,
        )
        return _json(report)

    async def pod_restart(self, http: Request) -> Response:
        service = (await _body(http)).get("service")
        if service not in ("bridge", "engine"):
            raise errors.InvalidRequest("service: Input should be 'bridge' or 'engine'")
        return _json(await self._supervisor.ask({"cmd": "restart", "service": service}, RESTART_S))

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        async with self._upstream:
            yield

    async def _on_error(self, http: Request, error: Exception) -> Response:
        request_id = http.state.request_id
        match error:
            case errors.BridgeError():
                return _refused(error, request_id)
            case HTTPException(status_code=404):
                return _refused(errors.NotFound(f"there is nothing at {http.url.path}"), request_id)
            case HTTPException():
                return _refused(errors.MethodNotAllowed(f"{http.method} is not for {http.url.path}"), request_id)
            case ClientDisconnect():
                return _refused(errors.InvalidRequest("the client left before its request was whole"), request_id)
        # A bug, which the server logs. Its answer does not pass the gate, so it names the request itself.
        answer = _refused(errors.Internal("the bridge failed; its log says how"), request_id)
        answer.headers["request-id"] = request_id
        return answer


# Plain ASGI: a BaseHTTPMiddleware would hide from the routes that their client has left.
@dataclass
class Gate:
    """The client's token may chat, the operator's may do everything; every answer gets the id of its request. While
    draining, no client is told to come back on the same connection."""

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
            answer = _refused(refusal, request_id)
        await answer(scope, receive, identified)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> errors.BridgeError | None:
        """Both tokens are always compared, each in constant time."""
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        token = bearer.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        operator = hmac.compare_digest(token, self.config.operator_token.encode())
        client = hmac.compare_digest(token, self.config.client_token.encode())
        if path == "/healthz" or operator or (client and not path.startswith("/pod/")):
            return None
        if client:
            return errors.Forbidden("this route takes the operator's token")
        return errors.Unauthorized("invalid or missing token (Authorization: Bearer, or x-api-key)")


def _refused(error: errors.BridgeError, request_id: str) -> Response:
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return Response(error.envelope(request_id), error.status, headers, JSON)


async def _body(http: Request) -> dict[str, Any]:
    """Raises TooLarge, InvalidRequest."""
    body = bytearray()
    async for chunk in http.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise errors.TooLarge(f"the request is larger than {MAX_BODY} bytes")
    return request.parse(bytes(body))


def _record(http: Request, body: dict[str, Any], engine: dict[str, Any], prefix: str) -> Record:
    session, agent = request.identity(http.headers, engine)
    return Record(
        id=f"{prefix}_{uuid.uuid4().hex[:24]}",
        request_id=http.state.request_id,
        session=session,
        agent=agent,
        model=body["model"],
        stream=body.get("stream") is True,
        arrived_at=time.monotonic(),
    )


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type=JSON)
