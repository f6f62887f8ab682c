"""The bridge's errors, by whose fault they are; each knows its Anthropic type, HTTP status and envelope.

BridgeError
 ├─ ClientFault   the request is wrong; sending it again will not help
 │   ├─ InvalidRequest 400   PromptTooLong 400   OutputTooLong 400   Unauthorized 401
 │   └─ Forbidden 403   NotFound 404   MethodNotAllowed 405   TooLarge 413
 ├─ EngineFault   the engine cannot, or answered nonsense
 │   └─ EngineUnreachable 529   EngineBusy 529   EngineTimeout 504   EngineBroken 500
 └─ BridgeFault   ours
     └─ AtCapacity 529   Draining 529   Internal 500   SupervisorUnreachable 503

Statuses and types are Anthropic's: https://docs.anthropic.com/en/api/errors
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec


class BridgeError(Exception):
    """Base: `message` is for the person who reads the client's screen."""

    type: ClassVar[str] = "api_error"
    status: ClassVar[int] = 500
    retry_after: ClassVar[int | None] = None
    """Seconds, for the header of that name. Claude Code then waits exactly this long, ten times at most."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def envelope(self, request_id: str | None = None) -> bytes:
        """The JSON body (or the `data:` of an error event) in Anthropic's shape."""
        body: dict[str, object] = {"type": "error", "error": {"type": self.type, "message": self.message}}
        if request_id is not None:
            body["request_id"] = request_id
        return msgspec.json.encode(body)


class ClientFault(BridgeError):
    type = "invalid_request_error"
    status = 400


class InvalidRequest(ClientFault):
    """The body is not what the Messages API takes, or the engine refused a value of it."""


class PromptTooLong(InvalidRequest):
    """Its wording is the one that makes Claude Code compact instead of retrying."""

    def __init__(self, tokens: int, maximum: int) -> None:
        super().__init__(f"prompt is too long: {tokens} tokens > {maximum} maximum")


class OutputTooLong(InvalidRequest):
    """The prompt fits, the prompt plus max_tokens does not: the caller may ask again for what is left."""


class Unauthorized(ClientFault):
    type = "authentication_error"
    status = 401


class Forbidden(ClientFault):
    type = "permission_error"
    status = 403


class NotFound(ClientFault):
    type = "not_found_error"
    status = 404


class MethodNotAllowed(ClientFault):
    status = 405


class TooLarge(ClientFault):
    type = "request_too_large"
    status = 413


class EngineFault(BridgeError):
    pass


class EngineUnreachable(EngineFault):
    """Nothing listens: it starts, restarts or died. Ten waits of this length outlast a warm start."""

    type = "overloaded_error"
    status = 529
    retry_after = 10


class EngineBusy(EngineFault):
    """It answered 503 or 429: its queue is full."""

    type = "overloaded_error"
    status = 529
    retry_after = 3


class EngineTimeout(EngineFault):
    type = "timeout_error"
    status = 504


class EngineBroken(EngineFault):
    """A 5xx, an answer that is not its protocol, or one that was cut."""


class BridgeFault(BridgeError):
    pass


class AtCapacity(BridgeFault):
    """max_streams requests are open."""

    type = "overloaded_error"
    status = 529
    retry_after = 3


class Draining(BridgeFault):
    """This bridge process ends now; another one answers the retry."""

    type = "overloaded_error"
    status = 529
    retry_after = 1


class Internal(BridgeFault):
    """A bug of ours: the log has it."""


class SupervisorUnreachable(BridgeFault):
    status = 503
    retry_after = 2


# vLLM 0.25 to 0.33, SGLang 0.5: what an overflow is called. (pattern, index of prompt tokens, index of the maximum)
_PROMPT_OVERFLOWS = (
    re.compile(r"maximum context length is (?P<max>\d+) tokens\b.*?(?P<n>\d+) input tokens, which exceeds", re.S),
    re.compile(r"input \((?P<n>\d+) tokens\) is longer than the model's context length \((?P<max>\d+) tokens\)"),
    re.compile(r"maximum context length is (?P<max>\d+)\b.*?request has (?P<n>\d+) input tokens", re.S),
    re.compile(r"maximum context length is (?P<max>\d+)\b.*?prompt contains (?:at least )?(?P<n>\d+)", re.S),
)
_MAX_TOKENS = re.compile(
    r"cannot be greater than max_model_len"
    r"|you requested \d+ output tokens"
    r"|'max_tokens' or 'max_completion_tokens' is too large"
    r"|\(\d+ in the messages, \d+ in the completion\)"
)


def from_engine(status: int, message: str) -> BridgeError:
    """What an engine's HTTP answer, or an error object inside its stream, means to our client."""
    if status in (429, 503):
        return EngineBusy(message or "the engine is busy")
    if status in (408, 504):
        return EngineTimeout(message or "the engine timed out")
    if status == 404:
        return NotFound(message or "the engine does not know this model or path")
    if status in (400, 413, 422):
        return _bad_request(message)
    return EngineBroken(message or f"the engine answered {status}")


def _bad_request(message: str) -> BridgeError:
    for pattern in _PROMPT_OVERFLOWS:
        if (found := pattern.search(message)) and int(found["n"]) >= int(found["max"]):
            return PromptTooLong(int(found["n"]), int(found["max"]))
    if _MAX_TOKENS.search(message):
        return OutputTooLong(message)
    return InvalidRequest(message or "the engine refused the request")


def engine_message(body: bytes) -> str:
    """The sentence inside an engine's error body, whichever of the usual shapes it has; its text else, cut at 500."""
    try:
        parsed = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return " ".join(body.decode("utf-8", "replace").split())[:500]
    inner = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("detail") or inner
    return inner if isinstance(inner, str) else msgspec.json.encode(inner).decode()[:500]
