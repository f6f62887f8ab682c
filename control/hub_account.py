"""What the Hugging Face Hub says of our token, of a repository, and of the time. Two GETs, for `passerelle doctor`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx
import msgspec

from control.errors import Refused, Unreachable
from control.hub import HfAddress

ENDPOINT = "https://huggingface.co"
WITHIN_S = 8.0
USER_AGENT = "passerelle"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose token it is, and what it may do as far as the Hub says."""

    name: str
    role: str
    """ "read", "write", "fineGrained", or "?"."""
    may: tuple[str, ...] = ()
    """Of a fine-grained one: "repo.write on owner/name"."""
    ahead_s: float | None = None
    """How far this machine's clock is ahead of the Hub's; the Hub says whole seconds."""


Repo = Literal["private", "public", "not seen"]


async def holder(token: str, environ: Mapping[str, str] = os.environ) -> Holder:
    """Raises Refused for a token that the Hub does not know, Unreachable."""
    response = await _get("/api/whoami-v2", token, environ)
    if response.status_code in (401, 403):
        raise Refused("the Hub does not know this token", "make one at huggingface.co/settings/tokens, role write")
    return read_holder(_body(response), _ahead(response))


def read_holder(body: dict[str, Any], ahead_s: float | None) -> Holder:
    """Of whoami-v2. Pure; what is missing is "?"."""
    token = _within(_within(body, "auth"), "accessToken")
    scoped = _within(token, "fineGrained").get("scoped")
    may = tuple(_rights(each) for each in scoped if isinstance(each, dict)) if isinstance(scoped, list) else ()
    return Holder(str(body.get("name") or "?"), str(token.get("role") or "?"), may, ahead_s)


async def repo(address: HfAddress, token: str | None, environ: Mapping[str, str] = os.environ) -> Repo:
    """Raises Unreachable. A wrong token and a missing repository look alike to the Hub."""
    response = await _get(f"/api/{address.kind}s/{address.repo}", token, environ)
    if response.status_code in (401, 403, 404):
        return "not seen"
    return "private" if _body(response).get("private") is True else "public"


async def _get(path: str, token: str | None, environ: Mapping[str, str]) -> httpx.Response:
    endpoint = (environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    headers = {"user-agent": USER_AGENT} | ({"authorization": f"Bearer {token}"} if token else {})
    try:
        async with httpx.AsyncClient(timeout=WITHIN_S) as client:
            response = await client.get(endpoint + path, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        # A header that cannot be sent is a ValueError, and its text may hold the token.
        raise Unreachable(f"{endpoint} gives no answer ({type(error).__name__})") from error
    if response.status_code == 429 or response.status_code >= 500:
        raise Unreachable(f"{endpoint} answers HTTP {response.status_code}")
    return response


def _body(response: httpx.Response) -> dict[str, Any]:
    try:
        return msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Unreachable(f"{response.url.host} answers HTTP {response.status_code} without JSON") from error


def _ahead(response: httpx.Response) -> float | None:
    try:
        return time.time() - parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None


def _within(value: dict[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _rights(scope: dict[str, Any]) -> str:
    permissions = scope.get("permissions")
    words = ", ".join(map(str, permissions)) if isinstance(permissions, list) else "?"
    return f"{words} on {_within(scope, 'entity').get('name', '?')}"
