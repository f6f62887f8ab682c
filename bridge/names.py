"""The names that models are asked for by: what is served, what is refused, and /v1/models in both dialects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bridge.errors import InvalidRequest, NotFound

UnknownModel = Literal["serve", "refuse"]
_MARK = "[1m]"
"""Claude Code's mark for "assume a window of a million tokens"; no part of any model's name."""


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

    def openai_list(self, created: int, max_model_len: int | None) -> dict[str, Any]:
        """`created` in Unix seconds."""
        data = [
            {
                "id": name,
                "object": "model",
                "created": created,
                "owned_by": "passerelle",
                "max_model_len": max_model_len,
            }
            for name in self.served
        ]
        return {"object": "list", "data": data}

    def anthropic_list(self, query: Mapping[str, str], created_at: str, max_model_len: int | None) -> dict[str, Any]:
        """One page, by `limit` (1 to 1000, else 20), `after_id` and `before_id`. `created_at` is RFC 3339."""
        limit = int(query.get("limit", "")) if query.get("limit", "").isdecimal() else 20
        if not 1 <= limit <= 1000:
            raise InvalidRequest("limit: Input should be between 1 and 1000")
        start, stop = 0, len(self.served)
        if (after := query.get("after_id")) in self.served:
            start = self.served.index(after) + 1
        if (before := query.get("before_id")) in self.served:
            stop = self.served.index(before)
            start = max(start, stop - limit)
        page = self.served[start : min(stop, start + limit)]
        more = start > 0 if before else start + len(page) < stop
        return {
            "data": [
                {
                    "type": "model",
                    "id": name,
                    "display_name": name,
                    "created_at": created_at,
                    "max_input_tokens": max_model_len,
                }
                for name in page
            ],
            "has_more": more,
            "first_id": page[0] if page else None,
            "last_id": page[-1] if page else None,
        }
