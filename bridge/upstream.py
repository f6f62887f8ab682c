"""The only file that speaks HTTP: streams of the engine, one connection per turn, and looks at how it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import msgspec

from bridge.config import Config
from bridge.errors import (
    BridgeError,
    EngineBroken,
    EngineTimeout,
    EngineUnreachable,
    OutputTooLong,
    engine_message,
    from_engine,
)
from bridge.metrics import for_report, process_start
from bridge.report import EngineProbe

log = logging.getLogger("bridge")

PROBE_S = 0.8
METRICS_S = 2.0
TOKENIZE_S = 60.0
CLOSE_S = 2.0
MAX_BODY = 64 * 1024 * 1024
MAX_ERROR_BODY = 1024 * 1024

_HEADERS = {"accept-encoding": "identity", "user-agent": "passerelle-bridge"}
_JSON = {"content-type": "application/json"}
_T = TypeVar("_T")


class _Count(msgspec.Struct):
    count: int


class _Version(msgspec.Struct):
    version: str | None = None


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model] = []


@dataclass(frozen=True, slots=True)
class _Known:
    """What one engine process said of itself. `start` is that process; None while any of it is missing."""

    start: str | None = None
    version: str | None = None
    models: tuple[str, ...] = ()
    max_model_len: int | None = None


def _why(cause: BaseException) -> str:
    return str(cause) or type(cause).__name__


class Stream:
    """One answer of the engine, its head read and its body not. Its owner must aclose() it."""

    def __init__(self, response: httpx.Response, closers: asyncio.TaskGroup) -> None:
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "application/octet-stream")
        self._response = response
        self._closers = closers
        # httpx types it as an iterator; it is a generator, and must be closed where it stands.
        chunks = response.aiter_raw()
        assert isinstance(chunks, AsyncGenerator)
        self._chunks: AsyncGenerator[bytes, None] = chunks

    async def read(self) -> bytes:
        """The next bytes; empty at a proper end. Raises EngineBroken when the connection is cut."""
        try:
            while not (chunk := await anext(self._chunks, None)):
                if chunk is None:
                    return b""
        except httpx.TransportError as cause:
            raise EngineBroken(f"the engine's answer was cut: {_why(cause)}") from cause
        return chunk

    async def rest(self, limit: int = MAX_BODY) -> bytes:
        """What is left of the body, at most about `limit` bytes."""
        body = bytearray()
        while len(body) < limit and (chunk := await self.read()):
            body += chunk
        return bytes(body)

    async def aclose(self) -> None:
        """Frees the connection, also when the caller is cancelled meanwhile: a second cancel during httpx's own
        aclose leaks the socket (encode/httpx#3782), so it runs in a task of the Upstream's."""
        await asyncio.shield(self._closers.create_task(self._close()))

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._chunks.aclose()
                await self._response.aclose()
        except TimeoutError:
            log.warning("an engine connection did not close within %.0f s", CLOSE_S)
        except Exception:  # the group is the whole bridge's: an error that leaves this task would end every stream
            log.exception("closing an engine connection")


class Upstream:
    """The engine. An async context manager; nothing outlives it.

    Turns never reuse a connection: on loopback a new one costs a fraction of a millisecond, and a kept one that the
    engine closes meanwhile fails a POST that must not be repeated blindly. max_connections=None because the ledger
    is the limit: httpcore's own pool, when full, orphans what is cancelled while it connects (httpcore#1093).
    """

    def __init__(self, config: Config) -> None:
        self._closers = asyncio.TaskGroup()
        tls = config.engine_url.startswith("https:")
        self._turns = httpx.AsyncClient(
            base_url=config.engine_url,
            headers=_HEADERS,
            timeout=httpx.Timeout(connect=5, read=None, write=30, pool=5),
            trust_env=False,
            transport=httpx.AsyncHTTPTransport(
                verify=tls,
                trust_env=False,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            ),
        )
        # Shorter than the engine's own keep-alive (uvicorn: 5 s), so that a probe never meets a closed socket.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=2.0)
        self._pool = httpx.AsyncHTTPTransport(verify=tls, trust_env=False, limits=limits)
        self._probes = httpx.AsyncClient(
            base_url=config.engine_url,
            headers=_HEADERS,
            timeout=httpx.Timeout(METRICS_S),
            trust_env=False,
            transport=self._pool,
        )
        self._known = _Known()

    async def __aenter__(self) -> Self:
        await self._closers.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closers.__aexit__(kind, error, trace)
        await self._turns.aclose()
        await self._probes.aclose()

    @property
    def idle(self) -> int:
        """Kept-alive connections with no request on them. httpx has no public count; httpcore's pool has."""
        return sum(connection.is_idle() for connection in self._pool._pool.connections)

    @property
    def max_model_len(self) -> int | None:
        """As the engine last said."""
        return self._known.max_model_len

    async def chat(self, request: Mapping[str, Any]) -> Stream:
        """A chat completion whose head is 200; raises BridgeError for any other. Asks once more when only max_tokens
        overflows the window: without the field vLLM gives all that is left, which is then less than was asked."""
        try:
            return await self._accepted("/v1/chat/completions", request)
        except OutputTooLong:
            rest = {name: value for name, value in request.items() if name != "max_tokens"}
            return await self._accepted("/v1/chat/completions", rest)

    async def relay(self, path: str, body: bytes) -> Stream:
        """An answer of any status. Raises EngineUnreachable, EngineTimeout."""
        request = self._turns.build_request("POST", path, content=body, headers=_JSON)
        try:
            return Stream(await self._turns.send(request, stream=True), self._closers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as cause:
            raise EngineUnreachable("the engine does not answer: it starts, restarts or is down") from cause
        except httpx.TimeoutException as cause:
            raise EngineTimeout(f"the engine does not take the request: {_why(cause)}") from cause
        except httpx.TransportError as cause:
            raise EngineUnreachable(f"the engine closed the connection without an answer: {_why(cause)}") from cause

    async def count(self, request: Mapping[str, Any]) -> int:
        """Tokens of a prompt, as the engine's own template and tokenizer make it."""
        try:
            async with asyncio.timeout(TOKENIZE_S):
                stream = await self._accepted("/tokenize", request)
                try:
                    body = await stream.rest()
                finally:
                    await stream.aclose()
        except TimeoutError as cause:
            raise EngineTimeout(f"the engine did not count tokens within {TOKENIZE_S:.0f} s") from cause
        try:
            return msgspec.json.decode(body, type=_Count).count
        except msgspec.DecodeError as cause:
            raise EngineBroken(f"the engine's /tokenize answered nonsense: {cause}") from cause

    async def metrics(self) -> str:
        """The engine's whole /metrics. Raises EngineFault within METRICS_S."""
        try:
            async with asyncio.timeout(METRICS_S):
                return (await self._get("/metrics")).text
        except TimeoutError as cause:
            raise EngineTimeout(f"no answer within {METRICS_S} s") from cause

    async def probe(self) -> EngineProbe:
        """One look, of PROBE_S at most; what the engine does wrong is in the value, never raised."""
        began = time.monotonic()
        text: str | None = None
        problem: str | None = None
        try:
            async with asyncio.timeout(PROBE_S):
                text = (await self._get("/metrics")).text
                await self._learn(process_start(text))
        except TimeoutError:
            problem = f"no answer within {PROBE_S} s"
        except BridgeError as error:
            problem = error.message
        known = self._known if text is not None else _Known()
        return EngineProbe(
            reachable=text is not None,
            error=problem,
            elapsed_s=time.monotonic() - began,
            version=known.version,
            models=known.models,
            max_model_len=known.max_model_len,
            metrics=None if text is None else for_report(text),
        )

    async def _accepted(self, path: str, request: Mapping[str, Any]) -> Stream:
        stream = await self.relay(path, msgspec.json.encode(request))
        if stream.status == 200:
            return stream
        try:
            body = await stream.rest(MAX_ERROR_BODY)
        finally:
            await stream.aclose()
        raise from_engine(stream.status, engine_message(body))

    async def _get(self, path: str) -> httpx.Response:
        try:
            response = await self._probes.get(path)
        except httpx.TransportError as cause:
            raise EngineUnreachable(_why(cause)) from cause
        if response.status_code != 200:
            raise EngineBroken(f"{path} answered {response.status_code}")
        return response

    async def _learn(self, start: str | None) -> None:
        """Version and models change only with the engine's process."""
        if start is not None and start == self._known.start:
            return
        self._known = _Known()
        async with asyncio.TaskGroup() as group:
            version = group.create_task(self._optional("/version", _Version()))
            models = group.create_task(self._optional("/v1/models", _Models()))
        said, listed = version.result(), models.result().data
        self._known = _Known(
            start=start if said.version is not None and listed else None,
            version=said.version,
            models=tuple(model.id for model in listed),
            max_model_len=listed[0].max_model_len if listed else None,
        )

    async def _optional(self, path: str, default: _T) -> _T:
        """The answer as the type of `default`, which stands for an answer that is none."""
        try:
            return msgspec.json.decode((await self._get(path)).content, type=type(default))
        except (BridgeError, msgspec.DecodeError):
            return default
