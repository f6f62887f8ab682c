"""The names that models are asked for by: which model is meant, what is refused, and /v1/models in both dialects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bridge.errors import InvalidRequest, NotFound

_MARK = "[1m]"  # Claude Code's, for "assume a window of a million tokens"; no part of any model's name
_PAGE, _LONGEST_PAGE = "20", 1000  # models, as Anthropic's API has them


def plain(name: str) -> str:
    return name[: -len(_MARK)] if name.lower().endswith(_MARK) else name


# `models` has each model's names by its key, the engine's own first; `loaded` is the key of the one in force.
@dataclass(frozen=True, slots=True)
class Names:
    models: Mapping[str, tuple[str, ...]]
    loaded: str
    unknown: Literal["serve", "refuse"]

    # Whose name it is, as (key, the engine's own name); the loaded model's if nobody's. Raises BridgeError.
    def resolve(self, asked: object) -> tuple[str, str]:
        if not isinstance(asked, str) or not asked:
            raise InvalidRequest("model: Field required" if asked is None else "model: Input should be a valid string")
        keys = {plain(name): key for name, key in self._keys().items()}
        # Claude Code lists only names that begin with claude-, so each may be asked for with it.
        key = keys.get(plain(asked), keys.get(plain(asked).removeprefix("claude-")))
        if key is None and self.unknown == "refuse":
            raise NotFound(f"model: {asked} is not served here; served: {', '.join(self._keys())}")
        key = self.loaded if key is None else key
        return key, self.models[key][0]

    # `created` in Unix seconds, `window` of the loaded model in tokens: of the others it is not known.
    def openai_list(self, created: int, window: int | None) -> dict[str, Any]:
        same, windows = {"object": "model", "created": created, "owned_by": "passerelle"}, self._windows(window)
        return {"object": "list", "data": [{"id": name, **same, "max_model_len": windows[name]} for name in windows]}

    # `created_at` is RFC 3339; `page` may hold limit, after_id and before_id. Raises InvalidRequest.
    def anthropic_list(self, created_at: str, window: int | None, page: Mapping[str, str]) -> dict[str, Any]:
        same, windows = {"type": "model", "created_at": created_at}, self._windows(window)
        names, more = _page(list(windows), page)
        data = [{"id": name, "display_name": name, **same, "max_input_tokens": windows[name]} for name in names]
        ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return {"data": data, "has_more": more, **ends}

    # The key of each name, the loaded model's names first.
    def _keys(self) -> dict[str, str]:
        keys = sorted(self.models, key=lambda key: key != self.loaded)
        return {name: key for key in keys for name in self.models[key]}

    def _windows(self, window: int | None) -> dict[str, int | None]:
        return {name: window if key == self.loaded else None for name, key in self._keys().items()}


def _page(names: list[str], page: Mapping[str, str]) -> tuple[list[str], bool]:
    limit, after, before = page.get("limit", _PAGE), page.get("after_id"), page.get("before_id")
    if not limit.isdecimal() or not 1 <= int(limit) <= _LONGEST_PAGE:
        raise InvalidRequest(f"limit: Input should be a whole number from 1 to {_LONGEST_PAGE}")
    if unknown := {after, before} - {None, *names}:
        raise InvalidRequest(f"after_id, before_id: {unknown.pop()} is no model's id")
    rest = names[names.index(after) + 1 if after else 0 : names.index(before) if before else None]
    shown = rest[-int(limit) :] if before else rest[: int(limit)]
    return shown, len(shown) < len(rest)
