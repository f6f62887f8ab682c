"""The only file that opens connections: to the engine, one per request, and to the socket of the pod's supervisor."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import httpx
import msgspec

from bridge import errors
from bridge.metrics import for_report
from bridge.report import EngineProbe

log = logging.getLogger("bridge")

PROBE_S = 0.8
METRICS_S = 2.0
TOKENIZE_S = 60.0
CLOSE_S = 2.0
SUPERVISOR_S = 1.0
MAX_BODY = 64 * 1024 * 1024  # bytes of an answer that is read whole: an error, a count
MAX_LINE = 16 * 1024 * 1024  # bytes of one answer of the supervisor: 500 log lines fit many times


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Count(msgspec.Struct):
    count: int


class _Said(msgspec.Struct):
    """What we read of /version and of /v1/models."""

    version: str | None = None
    data: list[_Model] = []


class Stream(NamedTuple):
    """One answer of the engine, its head read and its body not."""

    status: int
    content_type: str
    chunks: AsyncGenerator[bytes, None]


class Upstream:
    """The engine. An async context manager; nothing outlives it."""

    def __init__(self, url: str) -> None:
        self._closers = asyncio.TaskGroup()
        # No connection is used twice: on loopback a new one costs a fraction of a millisecond, and a kept one that the
        # engine closes meanwhile fails a POST that must not be repeated blindly. max_connections=None because the
        # ledger is the limit: httpcore's own pool, when full, orphans what is cancelled while it connects
        # (httpcore#1093).
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(
            base_url=url,
            headers={"accept-encoding": "identity", "user-agent": "passerelle-bridge"},
            timeout=httpx.Timeout(connect=5, read=None, write=30, pool=5),
            # Certificates are loaded only where they are needed: that costs tens of milliseconds.
            transport=httpx.AsyncHTTPTransport(verify=url.startswith("https:"), trust_env=False, limits=limits),
            trust_env=False,
        )
        self._models: list[_Model] = []

    async def __aenter__(self) -> Self:
        await self._closers.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._closers.__aexit__(*error)
        await self._client.aclose()

    @property
    def max_model_len(self) -> int | None:
        return self._models[0].max_model_len if self._models else None

    @asynccontextmanager
    async def chat(self, request: Mapping[str, Any]) -> AsyncIterator[Stream]:
        """A chat completion whose head is 200; raises BridgeError for any other."""
        path, rest = "/v1/chat/completions", {name: value for name, value in request.items() if name != "max_tokens"}
        try:
            async with self._accepted(path, request) as stream:
                yield stream
        except errors.OutputTooLong:
            # Without the field vLLM gives all that is left of the window, which is then less than was asked.
            async with self._accepted(path, rest) as stream:
                yield stream

    @asynccontextmanager
    async def stream(self, path: str, request: Mapping[str, Any] | None = None) -> AsyncIterator[Stream]:
        """The answer to a POST (to a GET without a request), of any status. Raises EngineUnreachable, EngineTimeout,
        and while its body is read EngineBroken."""
        method, body = ("GET", None) if request is None else ("POST", msgspec.json.encode(request))
        stream: Stream | None = None
        try:
            headers = {"content-type": "application/json"}
            sent = self._client.build_request(method, path, content=body, headers=headers)
            response = await self._client.send(sent, stream=True)
            # httpx types it as an iterator; it is a generator, and must be closed where it stands.
            chunks = response.aiter_raw()
            assert isinstance(chunks, AsyncGenerator)
            stream = Stream(response.status_code, response.headers.get("content-type", ""), chunks)
            yield stream
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as cause:
            raise errors.EngineUnreachable("the engine does not answer: it starts, restarts or is down") from cause
        except httpx.TimeoutException as cause:
            raise errors.EngineTimeout(f"the engine does not take the request: {_why(cause)}") from cause
        except httpx.TransportError as cause:
            if stream is None:
                raise errors.EngineUnreachable(f"the engine closed without an answer: {_why(cause)}") from cause
            raise errors.EngineBroken(f"the engine's answer was cut: {_why(cause)}") from cause
        finally:
            if stream is not None:
                # Also when the caller is cancelled meanwhile: a second cancel during httpx's own aclose leaks the
                # socket (encode/httpx#3782), so it runs in a task of ours.
                await asyncio.shield(self._closers.create_task(_close(stream, response)))

    async def count(self, request: Mapping[str, Any]) -> int:
        """Tokens of a prompt, as the engine's own template and tokenizer make it. Raises BridgeError."""
        body = await self._small("/tokenize", TOKENIZE_S, request)
        try:
            return msgspec.json.decode(body, type=_Count).count
        except msgspec.DecodeError as cause:
            raise errors.EngineBroken(f"the engine's /tokenize answered nonsense: {cause}") from cause

    async def metrics(self, within_s: float = METRICS_S) -> str:
        """The engine's whole /metrics, ending in a line's end. Raises BridgeError."""
        text = (await self._small("/metrics", within_s)).decode("utf-8", "replace")
        return text if text.endswith("\n") else text + "\n"

    async def probe(self) -> EngineProbe:
        """One look, of PROBE_S at most; what the engine does wrong is in the value, never raised."""
        began, text, problem = time.monotonic(), None, None
        async with asyncio.TaskGroup() as group:
            version = group.create_task(self._said("/version"))
            models = group.create_task(self._said("/v1/models"))
            try:
                text = await self.metrics(PROBE_S)
            except errors.BridgeError as error:
                problem = error.message
        self._models = models.result().data
        return EngineProbe(
            reachable=text is not None,
            error=problem,
            elapsed_s=time.monotonic() - began,
            version=version.result().version,
            models=tuple(model.id for model in self._models),
            max_model_len=self.max_model_len,
            metrics=None if text is None else for_report(text),
        )

    async def _said(self, path: str) -> _Said:
        """Nothing, when the engine does not answer that."""
        try:
            return msgspec.json.decode(await self._small(path, PROBE_S), type=_Said)
        except (errors.BridgeError, msgspec.DecodeError):
            return _Said()

    async def _small(self, path: str, within_s: float, request: Mapping[str, Any] | None = None) -> bytes:
        """A 200's body. Raises BridgeError."""
        try:
            async with asyncio.timeout(within_s), self._accepted(path, request) as stream:
                return await _whole(stream)
        except TimeoutError as cause:
            raise errors.EngineTimeout(f"no answer within {within_s} s") from cause

    @asynccontextmanager
    async def _accepted(self, path: str, request: Mapping[str, Any] | None) -> AsyncIterator[Stream]:
        async with self.stream(path, request) as stream:
            if stream.status != 200:
                raise errors.from_engine(stream.status, errors.engine_message(await _whole(stream)))
            yield stream


@dataclass
class Supervisor:
    """The pod's: one JSON line there, one back. `path` is its socket's; None when this bridge runs without one."""

    path: str | None

    async def ask(self, command: Mapping[str, Any], within_s: float = SUPERVISOR_S) -> dict[str, Any]:
        """One command and its answer, which said ok. Raises SupervisorUnreachable for anything else."""
        if self.path is None:
            raise errors.SupervisorUnreachable("this bridge runs without a supervisor")
        try:
            async with asyncio.timeout(within_s):
                reader, writer = await asyncio.open_unix_connection(self.path, limit=MAX_LINE)
                with closing(writer):
                    writer.write(msgspec.json.encode(command) + b"\n")
                    line = await reader.readuntil(b"\n")
            answer = msgspec.json.decode(line, type=dict[str, Any])
        except TimeoutError as cause:
            raise errors.SupervisorUnreachable(f"the supervisor did not answer within {within_s} s") from cause
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, msgspec.DecodeError) as cause:
            raise errors.SupervisorUnreachable(f"the supervisor's socket: {_why(cause)}") from cause
        if not answer.get("ok"):
            raise errors.SupervisorUnreachable(f"the supervisor refused: {answer.get('error') or 'no reason given'}")
        return answer

    async def status(self, log_after: int) -> tuple[dict[str, Any] | None, str | None]:
        """Its status, or why there is none."""
        try:
            status = (await self.ask({"cmd": "status", "log_after": log_after})).get("status")
        except errors.SupervisorUnreachable as error:
            return None, error.message
        return (status, None) if isinstance(status, dict) else (None, "the supervisor's answer has no status")


async def _whole(stream: Stream) -> bytes:
    body = bytearray()
    async for chunk in stream.chunks:
        body += chunk
        if len(body) > MAX_BODY:
            break
    return bytes(body)


async def _close(stream: Stream, response: httpx.Response) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await stream.chunks.aclose()
            await response.aclose()
    except Exception:  # the group is the whole bridge's: an error that leaves this task would end every stream
        log.exception("closing an engine connection")


def _why(cause: BaseException) -> str:
    return str(cause) or type(cause).__name__
