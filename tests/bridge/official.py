"""The official client, given the bytes of an answer: what it makes of them is what a user gets."""

from __future__ import annotations

import anthropic
import httpx2
from anthropic.types import Message


def understood(body: bytes, stream: bool) -> Message:
    """Raises what the client raises for bytes that it does not understand."""
    kind = "text/event-stream" if stream else "application/json"

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=body)

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer)) as http,
        anthropic.Anthropic(api_key="x", base_url="http://bridge", http_client=http, max_retries=0) as client,
    ):
        ask: list[anthropic.types.MessageParam] = [{"role": "user", "content": "hi"}]
        if not stream:
            return client.messages.create(model="m", max_tokens=9, messages=ask)
        with client.messages.stream(model="m", max_tokens=9, messages=ask) as events:
            return events.get_final_message()
