"""The only file that talks to a pod's bridge over HTTP: its report, and what it may be told to do.

httpx's exceptions end here: Unreachable when nothing useful answered, Unauthorized when our token was refused.
"""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from bridge.report import PodReport
from control.ctl import Request, Response
from control.errors import PasserelleError, Refused, Unauthorized, Unreachable
from control.models import Target

DEADLINE_S = 2.5
"""For one poll, all of it. A report takes the bridge 1 s at most, whatever its engine and supervisor do."""

COMMAND_S = 8.0
"""For one that steers: the bridge gives its supervisor 5 s."""

LOG_KEPT = 5_000
"""Lines that a supervisor keeps to be asked for."""

USER_AGENT = "passerelle"
"""RunPod's proxy answers 403 to a request without a User-Agent."""


class PortSilent(Unreachable):
    """Nothing answered at the address: refused, timed out, no such host."""


class NotABridge(Unreachable):
    """Something answered, but not with a pod's report: a proxy's error page, or another program on that port."""


class PodLink:
    """One kept-alive connection to one pod. Use as an async context manager."""

    def __init__(self, target: Target, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._target = target
        self._client = httpx.AsyncClient(
            base_url=target.url,
            headers={"authorization": f"Bearer {target.token}", "user-agent": USER_AGENT},
            timeout=httpx.Timeout(DEADLINE_S),
            transport=transport,
            verify=_tls(target.url) if transport is None else True,
            trust_env=not target.url.startswith("http://127."),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def report(self, log_after: int = 0) -> PodReport:
        """One consistent moment of the pod, with the log lines after `log_after`."""
        response = await self._request("GET", "/pod/report", params={"log_after": str(log_after)})
        try:
            return msgspec.json.decode(response.content, type=PodReport)
        except msgspec.DecodeError as error:
            raise NotABridge(f"the answer of {self._target.url}/pod/report is not a report ({error})") from error

    async def restart(self, service: str) -> None:
        """Restart "bridge" (no stream is lost) or "engine" (every stream is)."""
        await self.ask({"cmd": "restart", "service": service})

    async def one_token(self, model: str, within_s: float) -> None:
        """One real request of a client, for one token. Raises what came instead of a message."""
        body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "."}]}
        response = await self._request("POST", "/v1/messages", json=body, within_s=within_s)
        if _object(response, self._target.url).get("type") != "message":
            raise NotABridge(f"the answer of {self._target.url}/v1/messages is no message")

    async def ask(self, request: Request) -> Response:
        """What one would ask the supervisor's socket, by the bridge's routes for it. Raises Refused with its words."""
        match request:
            case {"cmd": "status"}:
                return await self._status(request.get("log_after"))
            case {"cmd": "tail", "after": after, "limit": int(limit)}:
                return await self._tail(after, limit)
            case {"cmd": str(verb), **told}:
                path = "/pod/stop" if verb == "stop-pod" else f"/pod/{verb}"
                response = await self._request("POST", path, json=told, within_s=COMMAND_S)
            case _:
                raise ValueError(f"no such request: {request}")
        return _object(response, self._target.url)

    async def _tail(self, after: int | None, limit: int) -> Response:
        """The bridge's route has no word for "the newest": all that the pod keeps is asked for, and its end taken."""
        asked = {"after": after or 0, "limit": LOG_KEPT if after is None else limit}
        params = {key: str(value) for key, value in asked.items()}
        page = _object(await self._request("GET", "/pod/log", params=params, within_s=COMMAND_S), self._target.url)
        if after is None and isinstance(page.get("log"), list):
            page["log"] = page["log"][-limit:]
        return page

    async def _status(self, log_after: int | None) -> Response:
        report = await self.report(log_after or 0)
        if report.bootstrap is None:
            raise NotABridge(f"the bridge's supervisor does not answer it: {report.bootstrap_error}")
        return {"status": report.bootstrap}

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        json: object = None,
        within_s: float = DEADLINE_S,
    ) -> httpx.Response:
        try:
            response = await self._client.request(method, path, params=params, json=json, timeout=within_s)
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:
            raise NotABridge(f"the connection to {self._target.url} broke: {_words(error)}") from error
        except httpx.TimeoutException as error:
            raise PortSilent(f"no answer within {within_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PortSilent(_words(error)) from error
        if response.is_success:
            return response
        raise _refusal(response, self._target.url)


def _object(response: httpx.Response, url: str) -> Response:
    try:
        return msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise NotABridge(f"the answer of {url} is not one of a bridge ({error})") from error


def _tls(url: str) -> ssl.SSLContext | bool:
    """Loading the CA store takes 20 ms that a plain-HTTP local pod need not pay."""
    return ssl.create_default_context() if url.startswith("https://") else False


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _refusal(response: httpx.Response, url: str) -> PasserelleError:
    status = response.status_code
    text = _message(response)
    if status in (401, 403):
        return Unauthorized(f"HTTP {status}: {text}", "this pod was started with another operator token")
    if status in (404, 405) or status >= 500:
        return NotABridge(f"HTTP {status} from {url}: {text}")
    return Refused(f"HTTP {status} from {url}: {text}")


def _message(response: httpx.Response) -> str:
    """The error's own words: Anthropic's envelope if it is one, else the start of the body."""
    try:
        body = msgspec.json.decode(response.content)
        return str(body["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
        return " ".join(response.text.split())[:200] or response.reason_phrase
