"""The bridge's errors, by whose fault they are, and what an engine's refusal means to our client."""

import re

import msgspec

from bridge.tables import TABLES


# `type` and `status` are Anthropic's (https://docs.anthropic.com/en/api/errors). After `retry-after` Claude Code waits
# exactly these seconds, ten times at most. `message` is for the person who reads the client's screen.
class BridgeError(Exception):
    type, status = "api_error", 500
    retry_after: int | None = None

    def __init_subclass__(cls, type: str = "api_error", status: int = 500, retry_after: int | None = None) -> None:
        cls.type, cls.status, cls.retry_after = type, status, retry_after

    def __init__(self, message: str) -> None:
        self.message = message

    # The JSON body, or the `data:` of an error event; `type` where it is not its own.
    def envelope(self, request_id: str, type: str | None = None) -> bytes:
        error = {"type": type or self.type, "message": self.message}
        return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})


class InvalidRequest(BridgeError, type="invalid_request_error", status=400): ...


class PromptTooLong(BridgeError, type="invalid_request_error", status=400): ...


# The prompt fits, the prompt plus max_tokens does not: the caller may ask again for what is left.
class OutputTooLong(BridgeError, type="invalid_request_error", status=400):
    room = 0  # tokens; 0 when the engine did not say how long the prompt is exactly


class Unauthorized(BridgeError, type="authentication_error", status=401): ...


class Forbidden(BridgeError, type="permission_error", status=403): ...


class NotFound(BridgeError, type="not_found_error", status=404): ...


class MethodNotAllowed(BridgeError, type="invalid_request_error", status=405): ...


class TooLarge(BridgeError, type="request_too_large", status=413): ...


# Nothing listens: it starts, restarts or died. Ten waits of this length outlast a warm start.
class EngineUnreachable(BridgeError, type="overloaded_error", status=529, retry_after=10): ...


class EngineBusy(BridgeError, type="overloaded_error", status=529, retry_after=3): ...


class EngineTimeout(BridgeError, type="timeout_error", status=504): ...


# A 5xx, or an answer that was cut.
class EngineBroken(BridgeError): ...


# An answer that is not its protocol.
class EngineGarbled(EngineBroken): ...


class AtCapacity(BridgeError, type="overloaded_error", status=529, retry_after=3): ...


# This bridge process ends now; another one answers the retry.
class Draining(BridgeError, type="overloaded_error", status=529, retry_after=1): ...


class Internal(BridgeError): ...


class SupervisorUnreachable(BridgeError, status=503, retry_after=2): ...


_OVERFLOWS = [re.compile(pattern, re.DOTALL) for pattern in TABLES["overflow"]["patterns"]]
_BY_STATUS = {404: NotFound, 408: EngineTimeout, 429: EngineBusy, 503: EngineBusy, 504: EngineTimeout}


# What an engine's HTTP answer, or an error object inside its stream, means to our client.
def from_engine(status: int, message: str) -> BridgeError:
    message = message or f"the engine answered {status}"
    if status not in (400, 413, 422):
        return _BY_STATUS.get(status, EngineBroken)(message)
    for overflow in filter(None, (pattern.search(message) for pattern in _OVERFLOWS)):
        tokens, maximum = (int(number) if number else 0 for number in overflow.group("n", "max"))
        if maximum and tokens >= maximum:
            # The wording that makes Claude Code compact instead of retrying.
            return PromptTooLong(f"prompt is too long: {tokens} tokens > {maximum} maximum")
        error = OutputTooLong(message)
        error.room = maximum - tokens - 1 if tokens and "at least" not in message else 0
        return error
    return InvalidRequest(message)


# The sentence inside an engine's error body, whichever of the usual shapes it has; its text else, cut at 500.
def engine_message(body: bytes) -> str:
    try:
        parsed = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return " ".join(body.decode("utf-8", "replace").split())[:500]
    inner = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("detail") or inner
    return inner if isinstance(inner, str) else msgspec.json.encode(inner).decode()[:500]
