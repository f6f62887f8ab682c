"""What Claude Code 2.1.332 really sent (wording replaced, shapes real), by scenario and by conversation."""

from __future__ import annotations

import json
import lzma
from typing import Any

from tests.bridge.chunks import DATA

Sent = dict[str, Any]  # method, path, headers, body

SCENARIOS: list[dict[str, Any]] = json.loads(lzma.decompress((DATA / "claude-code" / "requests.json.xz").read_bytes()))
MESSAGES: list[tuple[str, Sent]] = [
    (f"{one['scenario']}-{number}", sent)
    for one in SCENARIOS
    for number, sent in enumerate(one["requests"])
    if sent["path"].startswith("/v1/messages")
]


def conversations() -> dict[str, list[Sent]]:
    """The requests of each in their order; six clients at once are told apart by their connections."""
    out: dict[str, list[Sent]] = {}
    for one in SCENARIOS:
        for sent in one["requests"]:
            if sent["path"] == "/v1/messages":
                apart = sent["conn"] if one["scenario"] == "c_six_parallel" else "main"
                owner = sent["headers"].get("x-claude-code-agent-id", apart)
                out.setdefault(f"{one['scenario']}-{owner}", []).append(sent)
    return out


# What vLLM 0.32 really answered, with a tiny model: streams, whole answers, refusals.
ANSWERS: list[dict[str, Any]] = json.loads(lzma.decompress((DATA / "vllm" / "answers.json.xz").read_bytes()))
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case["input"] for case in json.loads((DATA / "bridge-cases.json").read_text("utf-8"))
}


def answers(path: str, stream: bool) -> list[dict[str, Any]]:
    """Those of a path that were not refused."""
    found = [one for one in ANSWERS if one["path"] == path and one["status"] == 200]
    return [one for one in found if one["content_type"].startswith("text/event-stream") is stream]
