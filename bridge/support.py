"""What the running engine takes: one request per feature that asks it, and what its answers mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.tables import TABLES

PLAIN = "plain"
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


def questions(model: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """By feature, a path and a body to ask once, by the engine's own name for its model; each costs a token at most."""
    least = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    probes = {name: {"path": "/v1/chat/completions", **probe} for name, probe in TABLES["probes"].items()}
    return {name: (probe.pop("path"), least | probe) for name, probe in probes.items()}


# By feature, the answer's status and body; a feature without an answer counts as taken.
def conclude(answers: Mapping[str, tuple[int, bytes]]) -> Support | None:
    """None when the engine does not answer even the plain question: it is to be asked again."""
    status, body = answers.get(PLAIN, (0, b""))
    if status != 200:
        return None
    refused = {name for name, (status, _) in answers.items() if status >= 400 and status not in _BUSY}
    # vLLM has `reasoning` in every message, null or not; SGLang and llama.cpp have `reasoning_content`.
    older = b'"reasoning_content"' in body and b'"reasoning"' not in body
    return Support(frozenset(refused), "reasoning_content" if older else "reasoning")


def suits(support: Support) -> str:
    """The mode for this engine, and why."""
    native = "native works too" if "native" in support else "it has no /v1/messages of its own for native"
    return f"translate: all that the bridge adds, for any engine; {native}"
