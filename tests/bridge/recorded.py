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
