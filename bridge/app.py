"""The only file with routes: request -> exchange or answer, error -> its envelope; and the gate before them."""

import asyncio
import hmac
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from time import gmtime, monotonic, strftime, time
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge import arguments, errors, names, report, request, tables, turn, upstream
from bridge.config import VERSION, Config
from bridge.exchange import Exchange, first_of, left
from bridge.ledger import Ledger, Prefixes, Record
from bridge.supervisor import AGAIN_S, COMMAND_S, EngineState, Supervisor

MAX_BODY = 64 * 1024 * 1024  # of a request; a million tokens of text are about 4 MB, images make a body large
LOOK_EVERY_S = 2.0
MESSAGES, CHAT, TOKENIZE = "/v1/messages", "/v1/chat/completions", "/tokenize"
Number = Annotated[int, Query(ge=0)]


# Everything one bridge process holds. `sockets` counts the TCP connections that clients hold open.
class Service:
    def __init__(self, config: Config, sockets: Callable[[], int]) -> None:
        self._config, self._sockets, self.closing = config, sockets, False
        self._ledger, self._prefixes = Ledger(config.max_streams), Prefixes()
        self._upstream = upstream.Upstream()
        engine = EngineState("serving" if config.engine_url else "changing", config.engine_url)
        self._supervisor = Supervisor(
            config.bootstrap_socket, engine, lambda: (self._ledger.connections(0).upstreams, sockets())
        )
        self.stopped = asyncio.Event()  # once set, every open exchange ends
        self._started, self._started_at = monotonic(), time()

    def app(self) -> ASGIApp:
        kinds = (errors.BridgeError, HTTPException, RequestValidationError, ClientDisconnect, Exception)
        app = FastAPI(openapi_url=None, lifespan=self._lifespan, exception_handlers=dict.fromkeys(kinds, _on_error))
        app.post(MESSAGES)(self.messages)
        app.post(f"{MESSAGES}/count_tokens")(self.count_tokens)
        for path in (CHAT, "/v1/completions", TOKENIZE):
            app.post(path)(self.relay)
        app.post("/pod/{verb}")(self.pod_command)
        looks: dict[str, Any] = {"/v1/models": self.models, "/healthz": self.healthz, "/metrics": self.metrics}
        for path, answer in (looks | {"/pod/report": self.pod_report, "/pod/log": self.pod_log}).items():
            app.get(path)(answer)
        return gate(app, self._config, self._ledger, lambda: self.closing)

    async def messages(self, http: Request) -> Response:
        body, config = await _body(http), self._config
        if config.mode != "translate":
            return self._relay(http, body, turn.ANTHROPIC if config.mode == "native" else turn.UNREAD)
        _, name = self._names().resolve(body.get("model"))
        engine = request.translate(body, model=name, effort=config.effort, supports=self._upstream.known.supports or {})
        record, guard = _record(http, body, engine), arguments.Guard(config.guard)
        return self._exchange(turn.Turn(record, config.ping_seconds, engine["max_tokens"], guard), CHAT, engine)

    async def relay(self, http: Request) -> Response:
        return self._relay(http, await _body(http), turn.UNREAD if http.url.path == TOKENIZE else turn.OPENAI)

    async def count_tokens(self, http: Request) -> Response:
        body, path = await _body(http), TOKENIZE
        name = self._names().resolve(body.get("model"))[1]
        if self._config.mode == "translate":
            engine = request.count(body, model=name)
        else:  # the engine renders an Anthropic prompt in its own way, and counts it so
            engine, path = body | {"model": name}, http.url.path
        url = (await self._supervisor.serving(until=0.0)).url
        counted = await first_of(self._upstream.count(f"{url}{path}", engine), left(http.receive))
        return _json({"input_tokens": counted or 0})

    async def models(self, http: Request) -> Response:
        known, window = self._names(), self._upstream.known.max_model_len
        if "anthropic-version" not in http.headers:
            return _json(known.openai_list(int(self._started_at), window))
        started = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(self._started_at))
        return _json(known.anthropic_list(started, window, http.query_params))

    async def healthz(self) -> Response:
        return _json({"status": "ok", "version": VERSION})

    async def metrics(self) -> Response:
        engine = ""
        with suppress(errors.BridgeError):
            engine = await self._upstream.metrics(self._supervisor.engine.url)
        supervised, _ = await self._supervisor.status(log_after=2**53)  # beyond any line
        restarts = (supervised or {}).get("bridge", {}).get("restarts")
        ours = self._ledger.metrics(self._connections(), self._started_at, restarts)
        return Response(f"{engine}\n{ours}", media_type="text/plain; version=0.0.4; charset=utf-8")

    async def pod_report(self, log_after: Number = 0, finished: Number = 0) -> Response:
        ledger, url = self._ledger, self._supervisor.engine.url
        looks = await asyncio.gather(self._upstream.probe(url), self._supervisor.status(log_after))
        now, (engine, (status, problem)) = monotonic(), looks
        process = VERSION, time(), os.getpid(), now - self._started
        traffic = self._connections(), ledger.totals(), ledger.turns(now), ledger.agents(now)
        more = self._config.mode, ledger.draining, ledger.finished(now, finished)
        return _json(report.PodReport(*process, *traffic, engine, status, problem, *more))

    async def pod_log(self, after: Number = 0, limit: Number = 500) -> Response:
        return _json(await self._supervisor.ask({"cmd": "tail", "after": after, "limit": limit}))

    async def pod_command(self, http: Request, verb: str) -> Response:
        body, commands = await _body(http), tables.TABLES["commands"]
        if verb in commands:
            return _json(await self._supervisor.ask({**body, "cmd": commands[verb]}, COMMAND_S))
        if verb != "drain" or not isinstance(body.get("on"), bool):
            raise errors.NotFound(f"POST /pod/ has {', '.join(commands)}, and drain with 'on': true or false")
        self._ledger.draining = body["on"]
        return _json({"ok": True})

    def _relay(self, http: Request, body: dict[str, Any], dialect: turn.Dialect) -> Exchange:
        self._names().resolve(body.get("model"))
        answer = turn.Answer(_record(http, body, body), self._config.ping_seconds, dialect)
        return self._exchange(answer, http.url.path, body)

    def _exchange(self, answer: turn.Answer, path: str, body: dict[str, Any]) -> Exchange:
        record = answer.record
        exchange = Exchange(answer, self._answer(answer, path, body), self._ledger, self.stopped)
        if path == CHAT:  # what an engine makes of an Anthropic body, which varies each turn, is not seen here
            record.prefix_break = self._prefixes.take((record.session, record.agent), body)
            self._ledger.counts["prefix_breaks"] += record.prefix_break is not None
        return exchange

    # A request waits here for an engine that starts, drains, swaps or just died; nothing was sent meanwhile.
    @asynccontextmanager
    async def _answer(self, answer: turn.Answer, path: str, body: dict[str, Any]) -> upstream.Reply:
        opening = self._upstream.chat if isinstance(answer, turn.Turn) else self._upstream.stream
        until, asked_before, refused_until = monotonic() + self._config.hold_seconds, None, 0.0
        record = answer.record
        swapping, record.phase = False, "queued"
        while True:
            engine = await self._supervisor.serving(until)
            model, name = (known := self._names()).resolve(record.model)
            if model != known.loaded:
                self._ledger.counts["swap_waits"] += not swapping
                swapping, record.phase = True, "swapping"
                await self._supervisor.swap(model, until)
                continue
            if engine is not asked_before:
                asked_before, refused_until = engine, monotonic() + self._config.refused_seconds
            record.phase, record.upstream_open = "connecting", True
            try:
                async with opening(f"{engine.url}{path}", body | {"model": name}) as response:
                    yield response
                return
            except upstream.NotSent:
                if monotonic() > refused_until:
                    raise
            finally:
                record.upstream_open = False
            record.phase = "queued"
            await asyncio.sleep(AGAIN_S)

    # Of the model in force, and where swaps are allowed of all.
    def _names(self) -> names.Names:
        engine, config = self._supervisor.engine, self._config
        models = engine.models or {"": config.model_names or self._upstream.known.models or ("",)}
        loaded = key if (key := engine.model or "") in models else next(iter(models))
        return names.Names(models if config.swap == "on" else {loaded: models[loaded]}, loaded, config.unknown_model)

    def _connections(self) -> report.Connections:
        engine = urlsplit(self._supervisor.engine.url or "")
        port = engine.port or (443 if engine.scheme == "https" else 80)
        return self._ledger.connections(self._sockets(), upstream.kernel_count(port))

    async def _learn(self) -> None:
        while True:
            engine = self._supervisor.engine
            if engine.state == "serving" and engine.url:
                with suppress(errors.BridgeError):
                    await self._upstream.look(engine.url)
            await asyncio.sleep(LOOK_EVERY_S)

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        async with self._upstream, asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in (self._supervisor.follow(), self._learn())]
            yield
            for task in tasks:
                task.cancel()


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
        await (app if refusal is None else _refused(refusal, request_id))(scope, receive, identified)

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


def _refused(error: errors.BridgeError, request_id: str) -> Response:
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return Response(error.envelope(request_id), error.status, headers, turn.JSON)


# What is not ours is a bug, which the server logs.
async def _on_error(http: Request, error: Exception) -> Response:
    known = error if isinstance(error, errors.BridgeError) else errors.Internal("the bridge failed; its log says how")
    if isinstance(error, HTTPException):
        kind = errors.NotFound if error.status_code == 404 else errors.MethodNotAllowed
        known = kind(f"{http.method} {http.url.path} is nothing that this bridge has")
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        known = errors.InvalidRequest(f"{first['loc'][-1]}: {first['msg']}")
    elif isinstance(error, ClientDisconnect):
        known = errors.InvalidRequest("the client left before its request was whole")
    return _refused(known, http.state.request_id)


# Raises TooLarge, before it reads where the size is said; InvalidRequest.
async def _body(http: Request) -> dict[str, Any]:
    body, said, chunks = bytearray(), int(http.headers.get("content-length") or 0), http.stream()
    while max(said, len(body)) <= MAX_BODY:
        if not (chunk := await anext(chunks)):
            return request.parse(bytes(body) or b"{}")
        body += chunk
    raise errors.TooLarge(f"the request is larger than {MAX_BODY} bytes")


def _record(http: Request, body: dict[str, Any], engine: dict[str, Any]) -> Record:
    who, streams = request.identity(http.headers, engine), body.get("stream") is True
    moment = {"request_id": http.state.request_id, "arrived_at": monotonic()}
    return Record(f"msg_{uuid4().hex[:24]}", *who, body["model"], stream=streams, **moment)


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type=turn.JSON)
