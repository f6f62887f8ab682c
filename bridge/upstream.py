"""The only file that speaks HTTP: streams of the engine, one connection per request, and looks at how it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Self, TypeVar

import httpx
import msgspec

from bridge import errors
from bridge.metrics import for_report, process_start
from bridge.report import EngineProbe

log = logging.getLogger("bridge")

PROBE_S = 0.8
METRICS_S = 2.0
TOKENIZE_S = 60.0
CLOSE_S = 2.0
MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer that is read whole: an error, a count."""
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
            async for chunk in self._chunks:
                if chunk:
                    return chunk
        except httpx.TransportError as cause:
            raise errors.EngineBroken(f"the engine's answer was cut: {_why(cause)}") from cause
        return b""

    async def whole(self) -> bytes:
        """What is left of the body, cut after about MAX_BODY, and the connection closed."""
        body = bytearray()
        try:
            while len(body) < MAX_BODY and (chunk := await self.read()):
                body += chunk
        finally:
            await self.aclose()
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
        except Exception:  # the group is the whole bridge's: an error that leaves this task would end every stream
            log.exception("closing an engine connection")


class Upstream:
    """The engine. An async context manager; nothing outlives it.

    No connection is used twice: on loopback a new one costs a fraction of a millisecond, and a kept one that the
    engine closes meanwhile fails a POST that must not be repeated blindly. max_connections=None because the ledger
    is the limit: httpcore's own pool, when full, orphans what is cancelled while it connects (httpcore#1093).
    """

    def __init__(self, url: str) -> None:
        self._closers = asyncio.TaskGroup()
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(
            base_url=url,
            headers={"accept-encoding": "identity", "user-agent": "passerelle-bridge"},
            timeout=httpx.Timeout(connect=5, read=None, write=30, pool=5),
            # A plain URL needs no certificates, and loading them costs tens of milliseconds at the start.
            transport=httpx.AsyncHTTPTransport(verify=url.startswith("https:"), trust_env=False, limits=limits),
            trust_env=False,
        )
        self._start: str | None = None
        """The engine's process that said all of the following."""
        self._version: str | None = None
        self._models: list[_Model] = []

    async def __aenter__(self) -> Self:
        await self._closers.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._closers.__aexit__(*error)
        await self._client.aclose()

    @property
    def max_model_len(self) -> int | None:
        """As the engine last said."""
        return self._models[0].max_model_len if self._models else None

    async def chat(self, request: Mapping[str, Any]) -> Stream:
        """A chat completion whose head is 200; raises BridgeError for any other. Asks once more when only max_tokens
        overflows the window: without the field vLLM gives all that is left, which is then less than was asked."""
        try:
            return await self._accepted("/v1/chat/completions", request)
        except errors.OutputTooLong:
            rest = {name: value for name, value in request.items() if name != "max_tokens"}
            return await self._accepted("/v1/chat/completions", rest)

    async def relay(self, path: str, request: Mapping[str, Any]) -> Stream:
        """An answer of any status. Raises EngineUnreachable, EngineTimeout."""
        body, headers = msgspec.json.encode(request), {"content-type": "application/json"}
        try:
            sent = self._client.build_request("POST", path, content=body, headers=headers)
            return Stream(await self._client.send(sent, stream=True), self._closers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as cause:
            raise errors.EngineUnreachable("the engine does not answer: it starts, restarts or is down") from cause
        except httpx.TimeoutException as cause:
            raise errors.EngineTimeout(f"the engine does not take the request: {_why(cause)}") from cause
        except httpx.TransportError as cause:
            raise errors.EngineUnreachable(f"the engine closed without an answer: {_why(cause)}") from cause

    async def count(self, request: Mapping[str, Any]) -> int:
        """Tokens of a prompt, as the engine's own template and tokenizer make it."""
        try:
            async with asyncio.timeout(TOKENIZE_S):
                body = await (await self._accepted("/tokenize", request)).whole()
            return msgspec.json.decode(body, type=_Count).count
        except TimeoutError as cause:
            raise errors.EngineTimeout(f"the engine did not count tokens within {TOKENIZE_S:.0f} s") from cause
        except msgspec.DecodeError as cause:
            raise errors.EngineBroken(f"the engine's /tokenize answered nonsense: {cause}") from cause

    async def metrics(self, within_s: float = METRICS_S) -> str:
        """The engine's whole /metrics, ending in a line's end. Raises BridgeError."""
        text = (await self._get("/metrics", within_s)).decode("utf-8", "replace")
        return text if text.endswith("\n") else text + "\n"

    async def probe(self) -> EngineProbe:
        """One look, of PROBE_S at most; what the engine does wrong is in the value, never raised."""
        began = time.monotonic()
        text: str | None = None
        problem: str | None = None
        try:
            text = await self.metrics(PROBE_S)
            await self._learn(process_start(text), began + PROBE_S - time.monotonic())
        except errors.BridgeError as error:
            problem = error.message
        return EngineProbe(
            reachable=text is not None,
            error=problem,
            elapsed_s=time.monotonic() - began,
            version=None if text is None else self._version,
            models=() if text is None else tuple(model.id for model in self._models),
            max_model_len=None if text is None else self.max_model_len,
            metrics=None if text is None else for_report(text),
        )

    async def _accepted(self, path: str, request: Mapping[str, Any]) -> Stream:
        stream = await self.relay(path, request)
        if stream.status == 200:
            return stream
        raise errors.from_engine(stream.status, errors.engine_message(await stream.whole()))

    async def _get(self, path: str, within_s: float) -> bytes:
        try:
            async with asyncio.timeout(within_s):
                response = await self._client.get(path)
        except TimeoutError as cause:
            raise errors.EngineTimeout(f"no answer within {within_s} s") from cause
        except httpx.TransportError as cause:
            raise errors.EngineUnreachable(_why(cause)) from cause
        if response.status_code != 200:
            raise errors.EngineBroken(f"{path} answered {response.status_code}")
        return response.content

    async def _learn(self, start: str | None, within_s: float) -> None:
        """Version and models change only with the engine's process; what it does not say is asked for again."""
        if start is not None and start == self._start:
            return
        async with asyncio.TaskGroup() as group:
            version = group.create_task(self._said("/version", _Version(), within_s))
            models = group.create_task(self._said("/v1/models", _Models(), within_s))
        self._version, self._models = version.result().version, models.result().data
        self._start = start if self._version is not None and self._models else None

    async def _said(self, path: str, nothing: _T, within_s: float) -> _T:
        """The answer as the type of `nothing`, which stands for an answer that is none."""
        try:
            return msgspec.json.decode(await self._get(path, within_s), type=type(nothing))
        except (errors.BridgeError, msgspec.DecodeError):
            return nothing


def _why(cause: BaseException) -> str:
    return str(cause) or type(cause).__name__
