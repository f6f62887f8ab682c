"""What the simulated model says: the marker language `[[sim JSON]]`, and filler where there is no marker (pure).

The last marker in a user or tool message rules. Its JSON is one turn, or an array of them of which the n-th answers the
n-th assistant turn since the message that holds it; past the end the answer is "done". A turn is
{"thinking": 40, "text": 120, "tools": [{"name": "Read", "input": {…}}]}: numbers are tokens of filler, strings are
said literally, and what is left out is not said.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

MARKER = re.compile(r"\[\[sim\s+")
_CLOSE = re.compile(r"\s*\]\]")
DEFAULT_THINKING = 24
DEFAULT_TEXT = (90, 150)
"""Tokens of a turn without a marker: the text's length is drawn from this range by the prompt's hash."""
LONGEST = 1_000_000
_TEXT = (
    "the pod serves a turn while its cache holds every block of the prompt and one step decodes each stream in order "
    "so that no agent waits long for a first token nor for the next one when another prompt is prefilled beside it"
)


class ScriptError(Exception):
    """A marker that cannot be read: `args[0]` says what is wrong, and at which character of which message."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What to say. An int is that many tokens of filler."""

    thinking: int | str = 0
    text: int | str = 0
    tools: tuple[Call, ...] = ()


DONE = Turn(text="done")


def scripted(messages: Sequence[Mapping[str, Any]]) -> Turn | None:
    """The turn that the conversation's last marker asks for now; None without a marker. Raises ScriptError."""
    answered = 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") == "assistant":
            answered += 1
        elif message.get("role") in ("user", "tool"):
            turns = last_script(plain_text(message.get("content")), where=f"message {index}")
            if turns is not None:
                return turns[answered] if answered < len(turns) else DONE
    return None


def last_script(text: str, where: str) -> tuple[Turn, ...] | None:
    """The turns of the last marker in `text`. A marker inside another's strings is part of that one's text."""
    found: tuple[Any, int] | None = None
    error: ScriptError | None = None
    at = 0
    while (marker := MARKER.search(text, at)) is not None:
        start = marker.end()
        try:
            value, at = _decode(text, start, where)
        except ScriptError as problem:
            found, error, at = None, problem, start
        else:
            found, error = (value, start), None
    if error is not None:
        raise error
    if found is None:
        return None
    value, start = found
    turns = value if isinstance(value, list) else [value]
    return tuple(_turn(turn, f"{where}, marker at character {start}") for turn in turns)


def plain_text(content: Any) -> str:
    """The text of a message's content, in either of its two shapes."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))


def unscripted(prompt: str, seed: int) -> Turn:
    """The turn of a prompt without a marker: always the same for the same prompt and seed."""
    return Turn(thinking=DEFAULT_THINKING, text=_random(prompt, seed).randint(*DEFAULT_TEXT))


def filler(prompt: str, seed: int, length: int) -> str:
    """`length` characters of words, without a space at either end; the same for the same prompt and seed."""
    rng = _random(prompt, seed)
    words = _TEXT.split()
    said: list[str] = []
    have = -1
    while have < length:
        word = rng.choice(words)
        said.append(word)
        have += len(word) + 1
    text = " ".join(said)[:length]
    return f"{text[:-1]}." if text else text


def _random(prompt: str, seed: int) -> random.Random:
    digest = blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8, salt=seed.to_bytes(16, "big", signed=True))
    return random.Random(digest.digest())


def _decode(text: str, start: int, where: str) -> tuple[Any, int]:
    """The JSON after a marker's opening and the character after its `]]`."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError as problem:
        raise ScriptError(f"{problem.msg} at character {problem.pos} of {where}") from problem
    close = _CLOSE.match(text, end)
    if close is None:
        raise ScriptError(f"Expecting ']]' at character {end} of {where}")
    return value, close.end()


def _turn(value: Any, where: str) -> Turn:
    if not isinstance(value, dict):
        raise ScriptError(f"a turn must be an object, not {type(value).__name__}: {where}")
    unknown = sorted(set(value) - {"thinking", "text", "tools"})
    if unknown:
        raise ScriptError(f"unknown key {unknown[0]!r} in a turn (thinking, text, tools): {where}")
    calls = value.get("tools", [])
    if not isinstance(calls, list):
        raise ScriptError(f"tools must be an array: {where}")
    return Turn(
        thinking=_words(value.get("thinking", 0), "thinking", where),
        text=_words(value.get("text", 0), "text", where),
        tools=tuple(_call(call, where) for call in calls),
    )


def _words(value: Any, key: str, where: str) -> int | str:
    if isinstance(value, str):
        # A lone surrogate is legal in JSON text and cannot be sent as UTF-8.
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST:
        raise ScriptError(f"{key} must be a string or a whole number of tokens up to {LONGEST}: {where}")
    return value


def _call(value: Any, where: str) -> Call:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ScriptError(f"a tool call must be an object with a name: {where}")
    arguments = json.dumps(value.get("input", {}), ensure_ascii=False)
    return Call(value["name"], arguments.encode("utf-8", "replace").decode())
