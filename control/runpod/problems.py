"""An answer that is an error -> ours, by what can be done about it. Pure.

RunPod has three generations of error bodies (v1 `error`, v2 problem+json `detail`, GraphQL `errors`), and the same
refusal comes with different statuses, so the text is looked at before the status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from control.errors import NoSuchPod, PasserelleError, Refused, Unauthorized, Unreachable

_NO_CAPACITY = (
    "no longer any instances",
    "no instances currently available",
    "does not have the resources",
    "not enough free gpus",
    "enough disk space",
)
LONGEST_WAIT_S = 60.0
_DEFAULT_WAIT_S = 5.0


class NoCapacity(Refused):
    """No such machine is free now; another type, data centre or time may have one."""


class NoFunds(Refused):
    """The balance does not reach for an hour."""


class KeyRefused(Unauthorized):
    """RunPod does not know our API key."""


class Forbidden(Refused):
    """The key is known and may not do this."""


class BadRequest(Refused):
    """RunPod does not take the request as it stands."""


class WrongState(Refused):
    """The pod's state does not allow it (409)."""


class ApiRetired(Refused):
    """This version of RunPod's API answers 410: it was switched off."""


class EdgeBlocked(Unreachable):
    """Cloudflare, in front of RunPod, turned us away: no word of RunPod's own."""


class Limited(Unreachable):
    """Too many requests; nothing was done, so the same request may be sent again after `wait_s`."""

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message, f"try again in {wait_s:.0f} s")
        self.wait_s = wait_s


class Ambiguous(Unreachable):
    """No usable answer: whether it was done is not known."""


def problem(status: int, headers: Mapping[str, str], body: bytes, what: str) -> PasserelleError:
    """The error of one answer with a status of 300 or more. `what` names the request, as in "GET /v2/pods"."""
    text, is_json = _words(body)
    said = f"RunPod to {what}: HTTP {status}" + (f", {text}" if text else "")
    low = text.lower()
    if any(phrase in low for phrase in _NO_CAPACITY):
        return NoCapacity(text)
    if status == 402 or "balance is too low" in low:
        return NoFunds(text or said, "add funds in RunPod's console (Billing), or take a cheaper GPU")
    if status == 403 and not is_json:
        return EdgeBlocked(said, "the block is on the way to RunPod, not a matter of your key")
    if status == 429:
        return Limited(said, _wait(headers))
    made = _BY_STATUS.get(status)
    if made is not None:
        kind, remedy = made
        return kind(said, remedy)
    if status >= 500:
        return Ambiguous(said, "try again in a minute; https://uptime.runpod.io says whether it is RunPod")
    return Unreachable(said) if status < 400 else BadRequest(said)


_BY_STATUS: dict[int, tuple[type[PasserelleError], str]] = {
    400: (BadRequest, ""),
    401: (KeyRefused, "give a key that is valid: RUNPOD_API_KEY, or passerelle init"),
    403: (Forbidden, "the key's scope does not reach for this: make one with write access to pods"),
    404: (NoSuchPod, "see the pods that there are: passerelle pod list"),
    409: (WrongState, "see its state: passerelle pod list"),
    410: (ApiRetired, "this version of passerelle is too old for RunPod's API: update it"),
    422: (BadRequest, ""),
}


def _wait(headers: Mapping[str, str]) -> float:
    """Retry-After in seconds, else what the RateLimit header says of the window that is used up."""
    try:
        return min(max(0.0, float(headers.get("retry-after", ""))), LONGEST_WAIT_S)
    except ValueError:
        used_up = re.findall(r"r=0;t=(\d+)", headers.get("ratelimit", ""))
        return min(float(max(map(int, used_up))) if used_up else _DEFAULT_WAIT_S, LONGEST_WAIT_S)


def _words(body: bytes) -> tuple[str, bool]:
    """The error's own words, in one line, and whether the body was JSON."""
    try:
        decoded: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = re.sub(r"<[^>]*>", " ", body.decode("utf-8", "replace"))
        return " ".join(text.split())[:300], False
    if not isinstance(decoded, dict):
        return str(decoded)[:300], True
    words = next((str(decoded[key]) for key in ("detail", "error", "message", "title") if decoded.get(key)), "")
    more = decoded.get("errors")
    if isinstance(more, list) and more:
        words = f"{words} {'; '.join(str(m) for m in more)}".strip()
    return " ".join(words.split())[:600], True
