"""What the running engine takes: one request per feature that asks it, and what its answers mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from bridge.tables import TABLES

PLAIN = "plain"
_CHAT = "/v1/chat/completions"
_BUSY = (408, 429, 503)  # says nothing about the feature


@dataclass(frozen=True, slots=True)
class Support:
    """`refused` are names of [probes] in tables.toml: what they stand for is left out of every request."""

    refused: frozenset[str] = frozenset()
    reasoning: str = "reasoning"  # the field of an engine's message that holds its thoughts

    def __contains__(self, feature: str) -> bool:
        return feature not in self.refused

    def by_feature(self) -> dict[str, bool]:
        return {feature: feature in self for feature in TABLES["probes"] if feature != PLAIN}


class Question(NamedTuple):
    feature: str
    path: str
    body: dict[str, Any]


def questions(model: str) -> list[Question]:
    """To be asked once at start, by the engine's own name for its model; each costs a token at most."""
    least = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    return [Question(name, probe.pop("path", _CHAT), least | probe) for name, probe in _probes().items()]


def conclude(answers: Mapping[str, tuple[int, bytes]]) -> Support | None:
    """From status and body by feature; a feature without an answer counts as taken. None when the engine does not
    even answer the plain question: then nothing was learned, and it is to be asked again."""
    status, body = answers.get(PLAIN, (0, b""))
    if status != 200:
        return None
    refused = {name for name, (status, _) in answers.items() if status >= 400 and status not in _BUSY}
    return Support(frozenset(refused), _reasoning_field(body))


def suits(support: Support) -> str:
    """The mode for this engine, and why."""
    if "native" not in support:
        return "translate: the engine has no /v1/messages of its own"
    return "translate: all that the bridge adds; native works too, for what only the engine's own /v1/messages knows"


def _probes() -> dict[str, dict[str, Any]]:
    return {name: dict(probe) for name, probe in TABLES["probes"].items()}


def _reasoning_field(body: bytes) -> str:
    """vLLM has `reasoning` in every message, null or not; SGLang and llama.cpp have `reasoning_content`."""
    try:
        message = msgspec.json.decode(body)["choices"][0]["message"]
    except (msgspec.DecodeError, KeyError, IndexError, TypeError):
        return "reasoning"
    return "reasoning_content" if "reasoning_content" in message and "reasoning" not in message else "reasoning"
