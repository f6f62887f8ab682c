"""A Claude-Code-shaped conversation that grows: system prompt, tools, tool_use / tool_result rounds. Pure.

Sizes are in tokens of `chars_per_token` characters. The simulated engine is told what to answer by a `[[sim …]]`
marker in the newest message (docs/simulator.md); a real model reads it as noise.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

WORDS = tuple(
    word
    for line in (
        "def return class self import from async await value error path config stream token engine bridge queue",
        "block cache prefill decode report state event action if else for in not none true false list dict tuple",
        "request response client server header body chunk line file read write open close start stop retry timeout",
    )
    for word in line.split()
)

TOOLS: list[dict[str, Any]] = [
    {
        "name": "Read",
        "description": "Reads a file from the local filesystem.",
        "input_schema": {
            "type": "object",
            "properties": {"file_path": {"type": "string"}, "offset": {"type": "integer"}},
            "required": ["file_path"],
        },
    },
    {
        "name": "Bash",
        "description": "Runs a command in a shell and returns what it printed.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
    {
        "name": "Edit",
        "description": "Replaces one string in a file by another.",
        "input_schema": {
            "type": "object",
            "properties": {"file_path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}},
            "required": ["file_path", "old", "new"],
        },
    },
]

SYSTEM_SHARE = 0.2
"""Of the first context: what every agent has in common, so that their prefixes meet in the cache."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """In tokens."""

    first: int = 60_000
    limit: int = 150_000
    """Past this the conversation begins anew, as a client that compacts does."""
    result: tuple[int, int] = (1_500, 7_000)
    answer: tuple[int, int] = (60, 240)
    chars_per_token: int = 4


@dataclass(slots=True)
class Conversation:
    """One agent's. `messages` only ever grows at its end until it starts over, so its prefix stays cacheable."""

    number: int
    sizes: Sizes
    random: random.Random
    system: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    chars: int = 0
    rounds: int = 0

    @classmethod
    def begin(cls, number: int, sizes: Sizes, seed: int) -> Conversation:
        """The agent `number`'s first prompt."""
        made = cls(number, sizes, random.Random(f"{seed}/{number}"))
        shared = text(random.Random(seed), int(sizes.first * SYSTEM_SHARE) * sizes.chars_per_token)
        made.system = [{"type": "text", "text": shared, "cache_control": {"type": "ephemeral"}}]
        made._restart()
        return made

    def answered(self, content: Sequence[dict[str, Any]]) -> None:
        """Append what the model said and what its tools return; begin anew when the context is full."""
        if self.chars > self.sizes.limit * self.sizes.chars_per_token:
            self._restart()
            return
        said = list(content) or [{"type": "text", "text": "…"}]
        self._append("assistant", said)
        calls = [block for block in said if block["type"] == "tool_use"]
        if not calls:
            self._append("user", [{"type": "text", "text": f"Go on with the next file. {self._marker()}"}])
            return
        results = [self._result(call["id"], last=call is calls[-1]) for call in calls]
        self._append("user", results)

    def _restart(self) -> None:
        own = int(self.sizes.first * (1 - SYSTEM_SHARE)) * self.sizes.chars_per_token
        self.messages = []
        self.chars = len(self.system[0]["text"])
        listing = text(self.random, own)
        self._append("user", [{"type": "text", "text": f"Agent {self.number}. {listing}\n{self._marker()}"}])

    def _append(self, role: str, content: list[dict[str, Any]]) -> None:
        self.messages.append({"role": role, "content": content})
        self.chars += sum(len(json.dumps(block)) for block in content)

    def _result(self, call_id: str, last: bool) -> dict[str, Any]:
        size = self.random.randint(*self.sizes.result) * self.sizes.chars_per_token
        marker = f"\n{self._marker()}" if last else ""
        return {"type": "tool_result", "tool_use_id": call_id, "content": text(self.random, size) + marker}

    def _marker(self) -> str:
        """Most turns call a tool, some two at once, and every seventh ends with words alone."""
        self.rounds += 1
        turn: dict[str, Any] = {
            "thinking": self.random.randint(10, 60),
            "text": self.random.randint(*self.sizes.answer),
        }
        if self.rounds % 7:
            turn["tools"] = [self._call() for _ in range(2 if self.rounds % 5 == 0 else 1)]
        return f"[[sim {json.dumps(turn)}]]"

    def _call(self) -> dict[str, Any]:
        name = f"src/{self.random.choice(WORDS)}_{self.random.randint(1, 99)}.py"
        if self.random.random() < 0.7:
            return {"name": "Read", "input": {"file_path": name}}
        return {"name": "Bash", "input": {"command": f"python -m pytest -q {name}"}}


def text(source: random.Random, chars: int) -> str:
    """About `chars` characters of words, in lines as source code has."""
    words: list[str] = []
    length = 0
    while length < chars:
        line = " ".join(source.choices(WORDS, k=10))
        words.append(line)
        length += len(line) + 1
    return "\n".join(words)[: max(chars, 1)]
