"""What the Hub double can be told to do wrong: each fault once, or a number of times, on the requests that it names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from tests.doubles.hub_wire import Answer

Kind = Literal["commit_quota", "api_window", "status", "committed_but", "hang", "truncate", "reset", "garbage"]
"""commit_quota: 429 of the hourly quota, with the Hub's exact words. api_window: 429 of the 5-minute window.
status: the given status with a page that is not JSON. committed_but: the work is done, then the status is answered.
hang: the request is read and never answered. truncate: half of the body, then the connection ends.
reset: the connection ends without an answer. garbage: 200 with a body that is not what was asked for."""

QUOTA_TEXT = (
    "You have exceeded the rate limit for repository commits (128 per hour). You can retry this action in about 1 hour."
)


@dataclass(slots=True)
class Fault:
    kind: Kind
    where: str
    """Regular expression, searched in "METHOD /path"."""
    times: int
    status: int
    seconds: int
    """Of Retry-After, or until the window ends."""


class Faults:
    """The faults that are still to come, first told first done."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, kind: Kind, where: str = "", times: int = 1, status: int = 500, seconds: int | None = None) -> None:
        defaults = {"commit_quota": 3600, "api_window": 55}
        self._waiting.append(Fault(kind, where, times, status, defaults.get(kind, 0) if seconds is None else seconds))

    def clear(self) -> None:
        self._waiting.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault of this request, counted as done."""
        for fault in self._waiting:
            if re.search(fault.where, f"{method} {path}"):
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                return fault
        return None


def answer_of(fault: Fault) -> Answer:
    """The answer of a fault that is one; `hang`, `truncate` and `reset` are matters of the connection."""
    match fault.kind:
        case "commit_quota":
            return _too_many(QUOTA_TEXT, '"api";r=900;t=100', fault.seconds)
        case "api_window":
            return _too_many("We had to rate limit you", f'"api";r=0;t={fault.seconds}', None)
        case "garbage":
            return Answer(200, b"<html>welcome to the hotel's network</html>", {"Content-Type": "text/html"})
        case _:
            return Answer(fault.status, b"<html>oops</html>", {"Content-Type": "text/html"})


def _too_many(text: str, limit: str, retry_after: int | None) -> Answer:
    headers = {
        "Content-Type": "application/json",
        "X-Request-Id": "Root=1-double",
        "RateLimit": limit,
        "RateLimit-Policy": '"fixed window";"api";q=1000;w=300',
    }
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return Answer(429, json.dumps({"error": text}).encode(), headers)
