"""Requests of the shape of Claude Code's: a long system prompt, twenty tools, a history of reads and edits."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from bridge.config import DEFAULT_EFFORT
from bridge.request import translate

WORDS = ("the", "file", "path", "function", "returns", "value", "error", "import", "class", "config", "test", "module")
ENDS = [" "] * 30 + ["\n"] * 3 + ['"', "\t", " — "]


def text(dice: random.Random, size: int) -> str:
    parts, made = [], 0
    while made < size:
        parts.append(dice.choice(WORDS) + dice.choice(ENDS))
        made += len(parts[-1])
    return "".join(parts)[:size]


def tool(dice: random.Random, number: int) -> dict[str, Any]:
    fields: dict[str, Any] = {f"p{place}": {"type": "string", "description": text(dice, 130)} for place in range(8)}
    schema = {"type": "object", "properties": fields, "required": ["p0"], "additionalProperties": False}
    return {"name": f"tool_{number}", "description": text(dice, 450), "input_schema": schema}


def conversation(dice: random.Random, size: int) -> list[dict[str, Any]]:
    """About `size` characters in 20 rounds of question, call and result."""
    messages: list[dict[str, Any]] = []
    for number in range(20):
        ask, answer, argument, result = (text(dice, int(size / 20 * share)) for share in (0.05, 0.1, 0.15, 0.7))
        call = {"type": "tool_use", "id": f"toolu_{number:04}", "name": f"tool_{number}", "input": {"p0": argument}}
        messages += [
            {"role": "user", "content": ask},
            {"role": "assistant", "content": [{"type": "text", "text": answer}, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": result}]},
        ]
    return messages


def write(folder: Path, model: str) -> None:
    """anthropic-SIZE.json and openai-SIZE.json, the same prompt, for small, 400 and 2000 kB of history."""
    folder.mkdir(exist_ok=True)
    dice = random.Random(7)
    system = [{"type": "text", "text": text(dice, 20_000), "cache_control": {"type": "ephemeral"}}]
    tools = [tool(dice, number) for number in range(20)]
    head = {"model": model, "max_tokens": 8000, "stream": True}
    bodies: dict[str, dict[str, Any]] = {"small": {**head, "messages": [{"role": "user", "content": "hello there"}]}}
    for kilobytes in (400, 2000):
        messages = conversation(dice, kilobytes * 1000)
        bodies[str(kilobytes)] = {**head, "system": system, "tools": tools, "messages": messages}
    for size, body in bodies.items():
        engine = translate(body, model="m", effort=DEFAULT_EFFORT)
        for dialect, value in (("anthropic", body), ("openai", engine)):
            raw = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            (folder / f"{dialect}-{size}.json").write_text(raw, encoding="utf-8")
