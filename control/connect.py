"""What Claude Code must be told to use a pod: which variables to set, and which to take out of its way. Pure.

Facts of Claude Code 2.1.332, measured: a model that it does not know is taken for one of a million tokens unless
CLAUDE_CODE_MAX_CONTEXT_TOKENS says otherwise; after an answer that was cut at max_tokens it asks again with 128,000
unless CLAUDE_CODE_MAX_OUTPUT_TOKENS caps it; its attribution header puts a line that changes from run to run at the
very head of the prompt, where it costs the prefix cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.report import PodReport
from control.errors import Refused, Unreachable

OUTPUT_MOST = 32_000
"""What Claude Code asks for by itself when it does not know the model."""

OUTPUT_LEAST = 1_024

MODEL_VARIABLES = (
    "ANTHROPIC_MODEL",
    # Sub-agents and commands may name a class of model instead of a model.
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    # The older name of the small model's variable.
    "ANTHROPIC_SMALL_FAST_MODEL",
)

UNSET = (
    # Outranks the token, and bills the official API.
    "ANTHROPIC_API_KEY",
    # Each sends the requests to another provider, whatever the base URL says.
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
)

LONG = "[1m]"
"""Claude Code's own mark of a name with a window of a million tokens; it is for its menu, and not sent."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Changes to an environment. `repr` shows no value: one of them is a token."""

    set: dict[str, str]
    unset: tuple[str, ...] = UNSET

    def __repr__(self) -> str:
        return f"Environment(set={sorted(self.set)}, unset={self.unset})"

    def applied(self, environ: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in environ.items() if name not in self.unset} | self.set


@dataclass(frozen=True, slots=True)
class Serving:
    """The model that a pod serves now, by its bare name, and its window in tokens."""

    model: str
    window: int


def serving(report: PodReport) -> Serving:
    """Raises Unreachable while the engine does not serve, since without its window nothing true can be said; Refused
    when it was given up, which waiting does not mend."""
    engine = report.engine
    names = [name.removesuffix(LONG) for name in engine.models]
    if names and engine.max_model_len:
        return Serving(names[0], engine.max_model_len)
    state = _supervised(report)
    if state == "fatal":
        raise Refused("the engine was given up by its supervisor", "see why: passerelle log, passerelle status")
    why = (state if state != "serving" else None) or engine.error or "it says no model"
    raise Unreachable(f"the engine does not serve yet ({why})", "wait for it: passerelle watch")


def _supervised(report: PodReport) -> str | None:
    """The supervisor's word for the engine's state."""
    service = (report.bootstrap or {}).get("engine")
    state = service.get("state") if isinstance(service, dict) else None
    return state if isinstance(state, str) else None


def environment(url: str, client_token: str, found: Serving) -> Environment:
    """Everything that the `claude` command needs."""
    output = max(OUTPUT_LEAST, min(OUTPUT_MOST, found.window // 4))
    return Environment(
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_AUTH_TOKEN": client_token,
            **dict.fromkeys(MODEL_VARIABLES, found.model),
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(found.window),
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(output),
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        }
    )
