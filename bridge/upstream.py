"""The only file that opens connections to the engine, one per request, and what was learned of the engine."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import msgspec

from bridge import errors
from bridge.report import EngineProbe
from bridge.support import conclude, questions, suits
from bridge.tables import TABLES

CONNECT_S = 5.0
PROBE_S = 0.8
LOOK_S = 2.0
QUESTION_S = 60.0  # for one token or one count, behind whatever else the engine has to do
MAX_COUNTS = 256  # that are remembered
LANES = 4  # token counts that run at once; equal ones share a lane, where the second finds the first's answer
SLICE = 256 * 1024  # bytes of a request that are written at once
Body: TypeAlias = dict[str, Any] | None
Reply: TypeAlias = AsyncIterator[aiohttp.ClientResponse]
_HEADERS = {"accept-encoding": "identity", "user-agent": "passerelle-bridge", "content-type": "application/json"}
_REPORTED = re.compile(TABLES["engine_metrics"]["reported"])


# Nothing listens: nobody has seen the request, so it may be sent again.
class NotSent(errors.EngineUnreachable, type="overloaded_error", status=529, retry_after=10): ...


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


# What is read of /version, /v1/models, /tokenize and /v1/messages/count_tokens.
class _Said(msgspec.Struct):
    version: str | None = None
    data: list[_Model] = []
    count: int | None = None
    input_tokens: int | None = None


# `known` says who answered the last look; its `supports` are None until it was asked.
class Upstream:
    def __init__(self) -> None:
        self._lanes = [asyncio.Lock() for _ in range(LANES)]
        self._counts: dict[bytes, int] = {}
        self.known = EngineProbe()

    # No connection is used twice: on loopback a new one costs a fraction of a millisecond, and a kept one that the
    # engine closes meanwhile fails a POST that must not be repeated blindly. No limit, since the ledger is the limit:
    # so there is no queue and no pool in which a cancelled request could stay.
    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        alone: dict[str, Any] = {"cookie_jar": aiohttp.DummyCookieJar(), "auto_decompress": False}
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=_HEADERS, **alone)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    # A completion whose head is 200; raises BridgeError for any other.
    @asynccontextmanager
    async def chat(self, url: str, request: dict[str, Any]) -> Reply:
        try:
            async with self._accepted(url, request) as response:
                yield response
        except errors.OutputTooLong as error:
            # Without the field vLLM gives all that is left of the window; others say how much that is.
            less = {name: request[name] for name in request if name != "max_tokens"}
            less |= {"max_tokens": error.room} if error.room else {}
            async with self._accepted(url, less) as response:
                yield response

    # The answer to a POST (to a GET without a request), of any status, its head read and its body not. Raises NotSent,
    # EngineUnreachable when it closed without an answer, EngineBroken while its body is read, and EngineTimeout when
    # all of it takes longer than `within_s` seconds.
    @asynccontextmanager
    async def stream(self, url: str, request: Body = None, within_s: float | None = None) -> Reply:
        how: dict[str, Any] = {"method": "GET", "allow_redirects": False}
        if request is not None:
            body = msgspec.json.encode(request)
            how |= {"method": "POST", "headers": {"content-length": str(len(body))}, "data": _slices(body)}
        failed: tuple[type[errors.BridgeError], str] = errors.EngineUnreachable, "the engine closed without an answer"
        try:
            async with asyncio.timeout(within_s):
                with closing(await self._session.request(url=url, **how)) as response:
                    failed = errors.EngineBroken, "the engine's answer was cut"
                    yield response
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as cause:
            raise NotSent("the engine does not answer: it starts, restarts or is down") from cause
        except aiohttp.InvalidURL:
            raise errors.EngineUnreachable("the engine's address is none") from None  # it may hold a password
        except aiohttp.ClientError as cause:
            raise failed[0](f"{failed[1]}: {str(cause) or type(cause).__name__}") from cause
        except TimeoutError as cause:
            raise errors.EngineTimeout(f"no answer within {within_s} s") from cause

    # Tokens of a prompt, as the engine's own template and tokenizer make it. Raises BridgeError.
    async def count(self, url: str, request: dict[str, Any]) -> int:
        key = sha256(msgspec.json.encode(request)).digest()
        async with self._lanes[key[0] % LANES]:
            if key not in self._counts:
                said = await self._said(url, request)
                if (count := said.input_tokens if said.count is None else said.count) is None:
                    raise errors.EngineBroken(f"the engine's answer at {urlsplit(url).path} has no count")
                self._counts[key] = count
                if len(self._counts) > MAX_COUNTS:
                    del self._counts[next(iter(self._counts))]
            return self._counts[key]

    # The engine's whole /metrics. Raises BridgeError.
    async def metrics(self, url: str | None, within_s: float = LOOK_S) -> str:
        if url is None:
            raise errors.EngineUnreachable("the engine has no address yet")
        async with self._accepted(f"{url}/metrics", None, within_s=within_s) as response:
            return (await response.read()).decode("utf-8", "replace")

    # What is known, and one look at its metrics, of PROBE_S at most; never raises.
    async def probe(self, url: str | None) -> EngineProbe:
        began, text, problem = monotonic(), None, None
        try:
            text = for_report(await self.metrics(url, PROBE_S))
        except errors.BridgeError as error:
            problem = error.message
        elapsed_s = monotonic() - began
        return replace(self.known, reachable=problem is None, error=problem, elapsed_s=elapsed_s, metrics=text)

    # Learns who answers there, and when that is another than before, what it takes. Raises BridgeError.
    async def look(self, url: str) -> None:
        version = None
        with suppress(errors.NotFound):
            version = (await self._said(f"{url}/version")).version
        models = (await self._said(f"{url}/v1/models")).data or [_Model("")]
        seen, known = (version, tuple(model.id for model in models), models[0].max_model_len), self.known
        if seen != (known.version, known.models, known.max_model_len):
            self.known = EngineProbe(False, None, 0.0, *seen)
            self._counts.clear()
        if self.known.supports is None:
            answers: dict[str, tuple[int, bytes]] = {}
            for feature, (path, body) in questions(models[0].id).items():
                async with self.stream(url + path, body, within_s=QUESTION_S) as response:
                    answers[feature] = response.status, await response.read()
            if supports := conclude(answers):
                self.known = replace(self.known, supports=supports, suits=suits(supports))

    async def _said(self, url: str, request: Body = None) -> _Said:
        try:
            async with self._accepted(url, request, within_s=LOOK_S if request is None else QUESTION_S) as response:
                return msgspec.json.decode(await response.read(), type=_Said)
        except msgspec.DecodeError as cause:
            raise errors.EngineBroken(
                f"the engine's answer at {urlsplit(url).path} is not its protocol: {cause}"
            ) from cause

    @asynccontextmanager
    async def _accepted(self, url: str, request: Body, within_s: float | None = None) -> Reply:
        async with self.stream(url, request, within_s) as response:
            if response.status != 200:
                raise errors.from_engine(response.status, errors.engine_message(await response.read()))
            yield response


# Not as one `bytes`, which aiohttp writes in one go, holding up every other stream.
async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), SLICE):
        yield body[start : start + SLICE]


# The families that the console reads, each line unchanged.
def for_report(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if _REPORTED.match(line))


# This process's TCP sockets to that port, as the kernel counts them.
def kernel_count(port: int) -> int:
    ours = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            ours.add(str(os.fstat(int(fd)).st_ino))
    rows = [line.split() for table in Path("/proc/self/net").glob("tcp*") for line in table.read_text().splitlines()]
    return sum(row[2].endswith(f":{port:04X}") and row[9] in ours for row in rows)
