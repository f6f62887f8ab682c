"""A stream of /v1/messages, event by event, as it is on the wire: the official client hides how one ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

TERMINAL = ("message_stop", "error")


@dataclass
class Stream:
    """`ended`: the server ended the response, and the connection was not cut."""

    status: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False
    body: str = ""
    """Of an answer that is no stream."""

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def terminal(self) -> list[str]:
        return [kind for kind in self.kinds if kind in TERMINAL]

    @property
    def whole(self) -> bool:
        """Answered to its end, and ended once."""
        return self.ended and self.terminal == ["message_stop"] and self.kinds[-1] == "message_stop"


async def ask(url: str, token: str, into: Stream | None = None, **body: Any) -> Stream:
    """Read one answer to its end. `into`: filled while it comes, for who wants to look meanwhile."""
    stream = into or Stream()
    given: Mapping[str, Any] = {"stream": True, "temperature": 0, **body}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(120), verify=False) as http,
        http.stream("POST", f"{url}/v1/messages", json=given, headers={"authorization": f"Bearer {token}"}) as answer,
    ):
        stream.status = answer.status_code
        if not answer.headers["content-type"].startswith("text/event-stream"):
            stream.body = (await answer.aread()).decode()
            return stream
        try:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    stream.events.append(json.loads(line.removeprefix("data: ")))
            stream.ended = True
        except httpx.RemoteProtocolError:
            stream.ended = False
    return stream


def hello(text: str = "Write a word.", model: str = "tiny-qwen", max_tokens: int = 3000) -> dict[str, Any]:
    """A request whose answer, at temperature 0, runs on to its max_tokens (make_tiny.py)."""
    asked = [{"role": "user", "content": text}]
    return {"model": model, "max_tokens": max_tokens, "thinking": {"type": "disabled"}, "messages": asked}
