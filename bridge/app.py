"""The only file with routes: from an HTTP request to an admitted exchange or an answer, and from an error to its
envelope."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from bridge import metrics, request
from bridge.answer import JSON, Answer, Relay
from bridge.auth import Gate
from bridge.config import VERSION, Config
from bridge.encode import MessageEncoder, StreamEncoder
from bridge.errors import (
    AtCapacity,
    BridgeError,
    Draining,
    Internal,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    TooLarge,
)
from bridge.exchange import Exchange, unless_gone
from bridge.ledger import Entry, Ledger
from bridge.names import Names
from bridge.report import PodReport
from bridge.supervisor import Supervisor
from bridge.turn import Turn
from bridge.upstream import Stream, Upstream

MAX_BODY = 64 * 1024 * 1024
"""Bytes of a request. A million tokens of text are about 4 MB; images are what makes a body large."""
RESTART_S = 5.0
NO_LOG = 2**53
"""A `log_after` beyond any line."""
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Service:
    """Everything one bridge process holds. `sockets` counts the TCP connections that clients hold open."""

    def __init__(self, config: Config, sockets: Callable[[], int]) -> None:
        self._config = config
        self._sockets = sockets
        self._names = Names(config.model_names, config.unknown_model)
        self._ledger = Ledger(config.max_streams)
        self._upstream = Upstream(config)
        self._supervisor = Supervisor(config.bootstrap_socket)
        self._exchanges: set[Exchange] = set()
        self.draining = False
        self._started = time.monotonic()
        self._started_at = time.time()

    def app(self) -> FastAPI:
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=self._lifespan)
        app.add_middleware(Gate, config=self._config, ledger=self._ledger, draining=lambda: self.draining)
        app.add_exception_handler(BridgeError, self._on_bridge_error)
        app.add_exception_handler(HTTPException, self._on_http_error)
        app.add_exception_handler(ClientDisconnect, self._on_client_gone)
        app.add_exception_handler(Exception, self._on_bug)
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
        """End every open stream now, each with one terminal event."""
        for exchange in tuple(self._exchanges):
            exchange.abort(Draining("the bridge was stopped before this answer was complete"))

    async def messages(self, http: Request) -> Response:
        body = request.parse(await _body(http))
        model = self._names.resolve(body.get("model"))
        engine = request.translate(body, model=model, effort=self._config.effort)
        message_id, streams = f"msg_{uuid.uuid4().hex[:24]}", body.get("stream") is True
        turn = Turn(
            (StreamEncoder if streams else MessageEncoder)(message_id, body["model"]),
            message_id=message_id,
            request_id=http.state.request_id,
            ping_s=self._config.ping_seconds,
            now=time.monotonic(),
        )
        entry = _entry(http, body, message_id, turn)
        return self._exchange(entry, lambda: self._upstream.chat(engine))

    async def relay(self, http: Request) -> Response:
        body = request.parse(await _body(http))
        body["model"] = self._names.resolve(body.get("model"))
        payload, path = msgspec.json.encode(body), http.url.path
        relay = Relay(request_id=http.state.request_id)
        entry = _entry(http, body, f"relay_{uuid.uuid4().hex[:24]}", relay)
        return self._exchange(entry, lambda: self._upstream.relay(path, payload))

    async def count_tokens(self, http: Request) -> Response:
        body = request.parse(await _body(http))
        engine = request.count(body, model=self._names.resolve(body.get("model")))
        tokens = await unless_gone(http.receive, self._upstream.count(engine))
        return _json({"input_tokens": tokens or 0})

    async def models(self, http: Request) -> Response:
        window = self._upstream.max_model_len
        if "anthropic-version" not in http.headers:
            return _json(self._names.openai_list(int(self._started_at), window))
        created = datetime.fromtimestamp(int(self._started_at), UTC).isoformat().replace("+00:00", "Z")
        return _json(self._names.anthropic_list(http.query_params, created, window))

    async def healthz(self) -> Response:
        return _json({"status": "ok", "version": VERSION})

    async def metrics(self) -> Response:
        """The engine's families when it answers, then ours."""
        async with asyncio.TaskGroup() as group:
            engine = group.create_task(self._engine_metrics())
            status = group.create_task(self._supervisor.status(NO_LOG))
        supervised = status.result()[0] or {}
        self._ledger.settle()
        ours = metrics.ours(
            self._ledger,
            self._ledger.connections(sockets=self._sockets(), upstreams_idle=self._upstream.idle),
            started_at=self._started_at,
            bridge_restarts=supervised.get("bridge", {}).get("restarts"),
        )
        return Response(engine.result().encode() + ours, media_type=PROMETHEUS)

    async def pod_report(self, http: Request) -> Response:
        asked = http.query_params.get("log_after", "0")
        if not asked.isdecimal():
            raise InvalidRequest("log_after: Input should be a whole number")
        async with asyncio.TaskGroup() as group:
            engine = group.create_task(self._upstream.probe())
            status = group.create_task(self._supervisor.status(int(asked)))
        bootstrap, bootstrap_error = status.result()
        now = time.monotonic()
        report = PodReport(
            version=VERSION,
            at=time.time(),
            pid=os.getpid(),
            uptime_s=now - self._started,
            connections=self._ledger.connections(sockets=self._sockets(), upstreams_idle=self._upstream.idle),
            totals=self._ledger.totals(),
            turns=self._ledger.turns(now),
            agents=self._ledger.agents(now),
            engine=engine.result(),
            bootstrap=bootstrap,
            bootstrap_error=bootstrap_error,
        )
        return _json(report)

    async def pod_restart(self, http: Request) -> Response:
        service = request.parse(await _body(http)).get("service")
        if service not in ("bridge", "engine"):
            raise InvalidRequest("service: Input should be 'bridge' or 'engine'")
        return _json(await self._supervisor.ask({"cmd": "restart", "service": service}, RESTART_S))

    def _exchange(self, entry: Entry, open_upstream: Callable[[], Coroutine[Any, Any, Stream]]) -> Response:
        """Raises AtCapacity."""
        self._ledger.admit(entry)
        exchange = Exchange(self._ledger, entry, open_upstream)
        self._exchanges.add(exchange)
        return _ExchangeResponse(exchange, self._exchanges)

    async def _engine_metrics(self) -> str:
        try:
            text = await self._upstream.metrics()
        except BridgeError:
            return ""
        return text if text.endswith("\n") or not text else text + "\n"

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        async with self._upstream:
            yield

    async def _on_bridge_error(self, http: Request, error: Exception) -> Response:
        assert isinstance(error, BridgeError)
        if not isinstance(error, AtCapacity):
            self._ledger.counts.rejected[error.type] += 1
        return _error(http, error)

    async def _on_http_error(self, http: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            return _error(http, MethodNotAllowed(f"{http.method} is not for {http.url.path}"))
        if error.status_code == 404:
            return _error(http, NotFound(f"there is nothing at {http.url.path}"))
        return _error(http, InvalidRequest(str(error.detail)))

    async def _on_client_gone(self, http: Request, error: Exception) -> Response:
        return Response(status_code=400)

    async def _on_bug(self, http: Request, error: Exception) -> Response:
        """Outside the gate, so it names the request itself; the server logs the error."""
        response = _error(http, Internal("the bridge failed; its log says how"))
        response.headers["request-id"] = http.state.request_id
        return response


class _ExchangeResponse(Response):
    """Lets an exchange answer in place of a response: it alone sees both ends."""

    def __init__(self, exchange: Exchange, live: set[Exchange]) -> None:
        self.background = None
        self._exchange = exchange
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._exchange.run(receive, send)
        finally:
            self._live.discard(self._exchange)


async def _body(http: Request) -> bytes:
    body = bytearray()
    async for chunk in http.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLarge(f"the request is larger than {MAX_BODY} bytes")
    return bytes(body)


def _entry(http: Request, body: dict[str, Any], entry_id: str, answer: Answer) -> Entry:
    session, agent = request.identity(http.headers, body)
    return Entry(
        id=entry_id,
        session=session,
        agent=agent,
        model=str(body["model"]),
        stream=body.get("stream") is True,
        arrived_at=time.monotonic(),
        answer=answer,
    )


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def _error(http: Request, error: BridgeError) -> Response:
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return Response(error.envelope(http.state.request_id), error.status, headers, JSON)
