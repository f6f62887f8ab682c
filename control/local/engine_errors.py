"""Refusals of the simulated engine, in the shape and the words of vLLM 0.32 as recorded (pure)."""

from __future__ import annotations

import json
from http import HTTPStatus

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class ApiError(Exception):
    """One refused or failed request."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    def _body(self) -> dict[str, object]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}

    def body(self) -> bytes:
        """The whole JSON answer."""
        return json.dumps(self._body(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def record(self) -> bytes:
        """The SSE record of an error in a stream that has begun; vLLM writes this one with spaces."""
        return f"data: {json.dumps(self._body(), ensure_ascii=False)}\n\n".encode("utf-8", "replace")


def bad_request(message: str, param: str | None = None) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, message, "BadRequestError", param)


def bad_value(message: str, param: str, value: object) -> ApiError:
    return bad_request(f"{message} (parameter={param}, value={value})", param)


def invalid(kind: str, field: str, why: str, value: object) -> ApiError:
    """What vLLM makes of a validation error of pydantic's."""
    detail = {"type": kind, "loc": f"body.{field}" if field else "body", "msg": why, "input": value}
    message = f"1 validation error:\n  {detail}"
    return ApiError(HTTPStatus.BAD_REQUEST, message, "Bad Request", str(detail["loc"]))


def unknown_model(name: object, names: tuple[str, ...]) -> ApiError:
    message = f"The model `{name}` does not exist."
    if len(names) > 1:
        message += f" Valid aliases: {', '.join(names)}."
    return ApiError(HTTPStatus.NOT_FOUND, message, "NotFoundError", "model")


def prompt_too_long(window: int) -> ApiError:
    """vLLM stops counting at the first token over the window, so that it always says "at least" one more."""
    message = (
        f"This model's maximum context length is {window} tokens. However, your prompt contains at least {window + 1} "
        "input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the "
        "input prompt."
    )
    return bad_value(message, "input_tokens", window + 1)


def total_too_long(window: int, output: int) -> ApiError:
    least = window - output + 1
    message = (
        f"This model's maximum context length is {window} tokens. However, you requested {output} output tokens and "
        f"your prompt contains at least {least} input tokens, for a total of at least {window + 1} tokens. Please "
        "reduce the length of the input prompt or the number of requested output tokens."
    )
    return bad_value(message, "input_tokens", least)


def engine_dead() -> ApiError:
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, DEAD, "InternalServerError")
