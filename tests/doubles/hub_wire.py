"""Requests and answers of the Hub double, and the shapes that the Hub gives its errors. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    """Path and query as they were sent."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def raw_path(self) -> str:
        return urlsplit(self.target).path

    @property
    def path(self) -> str:
        return unquote(self.raw_path)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)

    @property
    def token(self) -> str | None:
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token if kind.lower() == "bearer" else None

    def json(self) -> Any:
        return json.loads(self.body or b"{}")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """An answer that ends the handling of a request."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(
        status, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    )


def error(status: int, text: str, code: str | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    """The words twice, as the Hub has them: `X-Error-Message` and the body's `error`; the kind in `X-Error-Code`."""
    kind = {"X-Error-Code": code} if code else {}
    return as_json({"error": text}, status, {"X-Error-Message": text, **kind, **(headers or {})})


def not_found_page() -> Answer:
    return error(404, "Sorry, we can't find the page you are looking for.")
