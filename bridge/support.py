"""What the running engine takes: one request per feature that asks it, and what its answers mean."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from bridge.tables import TABLES

PLAIN = "plain"
# Thoughts are in a field of this name, as SGLang and llama.cpp have it; in `reasoning` else.
OLDER = "reasoning_content"
Supports: TypeAlias = Mapping[str, bool]  # by name of [probes] in tables.toml; what is absent is taken


# By feature, a path and a body to ask once, by the engine's own name for its model; each costs a token at most.
def questions(model: str) -> dict[str, tuple[str, dict[str, Any]]]:
    least = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    probes = {name: {"path": "/v1/chat/completions", **probe} for name, probe in TABLES["probes"].items()}
    return {name: (probe.pop("path"), least | probe) for name, probe in probes.items()}


# From each answer's status and body; None when the plain question had none: the engine is to be asked again. That it
# is busy (408, 429, 503) says nothing about a feature.
def conclude(answers: Mapping[str, tuple[int, bytes]]) -> dict[str, bool] | None:
    status, body = answers.get(PLAIN, (0, b""))
    if status != 200:
        return None
    taken = {name: status < 400 or status in (408, 429, 503) for name, (status, _) in answers.items() if name != PLAIN}
    # vLLM has `reasoning` in every message, null or not.
    return {**taken, OLDER: b'"reasoning_content"' in body and b'"reasoning"' not in body}


# The mode for this engine, and why.
def suits(supports: Supports) -> str:
    native = "native works too" if supports["native"] else "it has no /v1/messages of its own for native"
    return f"translate: all that the bridge adds, for any engine; {native}"
