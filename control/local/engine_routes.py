"""The simulated engine's HTTP surface: vLLM's routes, and /sim/* to look inside and to play faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control.local import engine_request, engine_sleep
from control.local.engine_errors import ApiError, bad_request, engine_dead, invalid
from control.local.engine_loop import FAULTS, ClientGone, Engine, Stream
from control.local.engine_metrics import HttpMetrics
from control.local.engine_options import VERSION, Options
from control.local.engine_request import Ask, Model
from control.local.engine_wire import DONE, Encoder, Envelope

_UNCOUNTED = frozenset({"/metrics", "/health", "/load", "/ping", "/version"})
"""Left out of the http_* families, as vLLM leaves them out."""


@dataclass(slots=True)
class Service:
    """What the routes share. `wall` is Unix time, `clock` the engine's."""

    options: Options
    model: Model
    engine: Engine
    wall: Callable[[], float]
    clock: Callable[[], float]
    load: int = 0
    """Requests being answered: /load."""


def app(service: Service) -> Starlette:
    """The ASGI application."""
    chat = Generate(service, engine_request.chat, "chatcmpl-")
    text = Generate(service, engine_request.completion, "cmpl-")
    plain: list[tuple[str, Callable[[Service, Request], Any], list[str]]] = [
        ("/health", _health, ["GET"]),
        ("/ping", _health, ["GET", "POST"]),
        ("/version", _version, ["GET"]),
        ("/load", _load, ["GET"]),
        ("/metrics", _metrics, ["GET"]),
        ("/v1/models", _models, ["GET"]),
        ("/tokenize", _tokenize, ["POST"]),
        ("/sim/state", _state, ["GET"]),
        ("/sim/fault", _fault, ["POST"]),
        *engine_sleep.routes(service.engine, service.options),
    ]
    routes = [Route(path, partial(answer, service), methods=methods) for path, answer, methods in plain]
    routes.append(Route("/v1/chat/completions", chat, methods=["POST"]))
    routes.append(Route("/v1/completions", text, methods=["POST"]))
    handlers: Mapping[Any, Any] = {ApiError: _refused, HTTPStatus.NOT_FOUND: _not_found}
    observer = Middleware(HttpObserver, service.engine.metrics.http, service.clock, frozenset(r.path for r in routes))
    return Starlette(routes=routes, exception_handlers=handlers, middleware=[observer])


class HttpObserver:
    """ASGI middleware: counts answers as prometheus-fastapi-instrumentator does for vLLM."""

    def __init__(self, inner: ASGIApp, http: HttpMetrics, clock: Callable[[], float], paths: frozenset[str]) -> None:
        self._inner = inner
        self._http = http
        self._clock = clock
        self._paths = paths - _UNCOUNTED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in self._paths:
            await self._inner(scope, receive, send)
            return
        began = self._clock()
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value
        sent = 0

        async def watched(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = _length(message["headers"])
            await send(message)

        try:
            await self._inner(scope, receive, watched)
        finally:
            self._http.served(
                method=scope["method"],
                handler=scope["path"],
                status=status,
                took_s=self._clock() - began,
                request_bytes=_length(scope["headers"]),
                response_bytes=sent,
            )


class Generate:
    """ASGI endpoint of one generating route. A client that leaves frees its request at once, stream or not."""

    def __init__(self, service: Service, parse: Callable[[Mapping[str, Any], Model], Ask], prefix: str) -> None:
        self._service = service
        self._parse = parse
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request = Request(scope, receive)
        try:
            if service.engine.dead:
                raise engine_dead()
            ask = self._parse(await _json(request), service.model)
            stream = service.engine.submit(ask, self._id(request))
        except ApiError as error:
            await _json_response(error.body(), error.status)(scope, receive, send)
            return
        except ClientDisconnect:
            return
        service.load += 1
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self._watch(receive, stream))
                await self._answer(stream, scope, send)
                watch.cancel()
        finally:
            service.load -= 1
            service.engine.leave(stream)

    def _id(self, request: Request) -> str:
        """The client's x-request-id where it gave one that is not in use, as vLLM does."""
        said = f"{self._prefix}{request.headers.get('x-request-id') or uuid4().hex[:16]}"
        return said if said not in self._service.engine.streams else f"{said}-{uuid4().hex[:8]}"

    async def _watch(self, receive: Receive, stream: Stream) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._service.engine.leave(stream)
        stream.fail(ClientGone())

    async def _answer(self, stream: Stream, scope: Scope, send: Send) -> None:
        options = self._service.options
        envelope = Envelope(
            stream.request.id, int(self._service.wall()), stream.ask.model, f"vllm-{VERSION}-{options.seed:08x}"
        )
        encoder = Encoder(stream.ask, envelope)
        try:
            if stream.ask.stream:
                await self._stream(stream, encoder, send)
            else:
                await self._whole(stream, encoder, send)
        except ClientGone:
            return
        chat = stream.ask.api == "chat"
        self._service.engine.metrics.parsed(encoder.parsed, stream=stream.ask.stream, chat=chat)

    async def _stream(self, stream: Stream, encoder: Encoder, send: Send) -> None:
        # The head goes out before the first token, as vLLM's does: a waiting request is a 200 without a byte.
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": HTTPStatus.OK.value, "headers": headers})
        try:
            while not stream.finished:
                chunks = encoder.stream(await stream.take(), self._cached(stream))
                if chunks:
                    await send({"type": "http.response.body", "body": chunks, "more_body": True})
        except ApiError as error:
            await send({"type": "http.response.body", "body": error.record() + DONE, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, stream: Stream, encoder: Encoder, send: Send) -> None:
        status = HTTPStatus.OK.value
        try:
            while not stream.finished:
                await stream.take()
            body = encoder.whole(self._cached(stream))
        except ApiError as error:
            status, body = error.status, error.body()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _cached(self, stream: Stream) -> Any:
        return self._service.engine.cached(stream) if self._service.options.prompt_details else None


async def _json(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object. Raises ApiError; ClientDisconnect when it does not come whole."""
    raw = await request.body()
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise invalid("json_invalid", "", f"JSON decode error: {error}", "…") from error
    if not isinstance(body, dict):
        raise invalid("model_attributes_type", "", "Input should be a valid dictionary", body)
    return body


def _json_response(body: bytes, status: int = HTTPStatus.OK) -> Response:
    return Response(body, status, media_type="application/json")


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return _json_response(error.body(), error.status)


async def _not_found(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"detail": "Not Found"}, HTTPStatus.NOT_FOUND)


async def _health(service: Service, _request: Request) -> Response:
    return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE if service.engine.dead else HTTPStatus.OK)


async def _version(_service: Service, _request: Request) -> Response:
    return JSONResponse({"version": VERSION})


async def _load(service: Service, _request: Request) -> Response:
    return JSONResponse({"server_load": service.load if service.options.load_tracking else 0})


async def _metrics(service: Service, _request: Request) -> Response:
    text = service.engine.metrics.text(service.engine.gauges())
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


async def _models(service: Service, _request: Request) -> Response:
    created = int(service.wall())
    cards = [_card(name, created, service.options) for name in service.options.names]
    return JSONResponse({"object": "list", "data": cards})


def _card(name: str, created: int, options: Options) -> dict[str, Any]:
    permission = {
        "id": f"modelperm-{uuid4().hex[:16]}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": options.model,
        "parent": None,
        "max_model_len": options.window,
        "permission": [permission],
    }


async def _tokenize(service: Service, request: Request) -> Response:
    ids, strings = engine_request.tokenized(await _json(request), service.model)
    body = {"count": len(ids), "max_model_len": service.options.window, "tokens": ids, "token_strs": strings}
    return JSONResponse(body)


async def _state(service: Service, _request: Request) -> Response:
    return JSONResponse({"version": VERSION, **service.engine.state()})


async def _fault(service: Service, request: Request) -> Response:
    body = await _json(request)
    kind, seconds, factor = body.get("kind"), body.get("seconds"), body.get("factor", 1.0)
    if kind not in FAULTS:
        raise bad_request(f"kind must be one of {', '.join(FAULTS)}", "kind")
    if seconds is not None and (not isinstance(seconds, int | float) or seconds <= 0):
        raise bad_request("seconds must be more than 0", "seconds")
    if not isinstance(factor, int | float) or factor <= 0:
        raise bad_request("factor must be more than 0", "factor")
    service.engine.set_fault(kind, seconds, factor)
    return JSONResponse({"version": VERSION, **service.engine.state()})


def _length(headers: Any) -> int:
    for name, value in headers:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return 0
