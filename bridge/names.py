"""The names that models are asked for by: what is served, what is refused, and /v1/models in both dialects."""

from dataclasses import dataclass
from typing import Any, Literal

from bridge.errors import InvalidRequest, NotFound

UnknownModel = Literal["serve", "refuse"]
_MARK = "[1m]"  # Claude Code's, for "assume a window of a million tokens"; no part of any model's name


def plain(name: str) -> str:
    return name[: -len(_MARK)] if name.lower().endswith(_MARK) else name


@dataclass(frozen=True, slots=True)
class Names:
    """`served[0]` is the engine's own name for its model."""

    served: tuple[str, ...]
    unknown: UnknownModel

    def resolve(self, asked: object) -> str:
        """The engine's name for the model that was asked for. Errors: InvalidRequest, NotFound."""
        if not isinstance(asked, str) or not asked:
            raise InvalidRequest("model: Field required" if asked is None else "model: Input should be a valid string")
        if self.unknown == "refuse" and plain(asked) not in {plain(name) for name in self.served}:
            raise NotFound(f"model: {asked} is not served here; served: {', '.join(self.served)}")
        return self.served[0]

    def openai_list(self, created: int, window: int | None) -> dict[str, Any]:
        """`created` in Unix seconds, `window` in tokens."""
        model = {"object": "model", "created": created, "owned_by": "passerelle", "max_model_len": window}
        return {"object": "list", "data": [{"id": name, **model} for name in self.served]}

    def anthropic_list(self, created_at: str, window: int | None) -> dict[str, Any]:
        """All of them in one page, whatever limit was asked for. `created_at` is RFC 3339, `window` in tokens."""
        model = {"type": "model", "created_at": created_at, "max_input_tokens": window}
        data = [{"id": name, "display_name": name, **model} for name in self.served]
        return {"data": data, "has_more": False, "first_id": self.served[0], "last_id": self.served[-1]}
