"""Bytes as an engine sends them: chunks of a chat completion stream, whole streams, recorded ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **extra: Any) -> bytes:
    stop = extra.pop("stop_reason", None)
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish, "stop_reason": stop}
    return record({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], **extra})


def record(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def usage(prompt: int, output: int, cached: int | None = None) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": details}


def usage_chunk(prompt: int, output: int, cached: int | None = None) -> bytes:
    return record({"id": "chatcmpl-1", "choices": [], "usage": usage(prompt, output, cached)})


def tool(index: int, arguments: str = "", name: str | None = None, call_id: str | None = None) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": arguments}
    if name is not None:
        function["name"] = name
    call: dict[str, Any] = {"index": index, "function": function}
    if call_id is not None:
        call |= {"id": call_id, "type": "function"}
    return call


def text_answer(*words: str, finish: str = "stop") -> bytes:
    parts = [chunk({"content": word}) for word in words]
    return b"".join([*parts, chunk(finish=finish), usage_chunk(10, len(words), 4), DONE])


def recorded(name: str) -> bytes:
    return (DATA / "sse" / name).read_bytes()


def events(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The Anthropic stream as (event, data), strictly: each record has exactly these two lines."""
    assert body.endswith(b"\n\n") or not body
    out = []
    for part in body.decode().removesuffix("\n\n").split("\n\n") if body else []:
        first, second = part.split("\n")
        assert first.startswith("event: ")
        assert second.startswith("data: ")
        data = json.loads(second[6:])
        assert data["type"] == first[7:]
        out.append((first[7:], data))
    return out


def terminals(body: bytes) -> int:
    return sum(name in ("message_stop", "error") for name, _ in events(body))
