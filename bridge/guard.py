"""Whole-file writes whose content leaves out a part of the file: a "rest of file unchanged" destroys that part."""

import re
from typing import Literal

import msgspec

from bridge.arguments import parsed
from bridge.tables import TABLES

_TABLE = TABLES["guard"]
_LINE = "|".join(_TABLE["lines"])
for _name in ("PART", "NOUN", "STATE", "GAP"):
    _LINE = _LINE.replace(_name, _TABLE[_name])
_MARKER = re.compile(f"^(?:{_LINE})$", re.IGNORECASE | re.MULTILINE | re.VERBOSE)
_REFUSED = (
    "Nothing was written. The content holds %r in place of a part of the file, which would be lost. Send the whole"
    " content, or change only what differs with an edit tool."
)


# What counts is a line that is such a marker and nothing else (tables.toml); prose, code and quoted text do not.
# In "refuse" the agent gets, instead of the content, an input that its own check refuses and that says why.
class Guard:
    """`found` are the markers of this answer."""

    def __init__(self, mode: Literal["warn", "refuse"]) -> None:
        self.found: list[str] = []
        self._refuses = mode == "refuse"

    # Whether its arguments must be whole before any of them is sent.
    def holds(self, tool: str) -> bool:
        return self._refuses and tool in _TABLE["tools"]

    # What to send instead of a call's arguments, which are whole; None: they are sound, or none of ours.
    def review(self, tool: str, arguments: str) -> str | None:
        call = (parsed(arguments) if tool in _TABLE["tools"] else None) or {}
        texts = [value for name, value in call.items() if name in _TABLE["fields"] and isinstance(value, str)]
        markers = [found.group().strip() for text in texts if (found := _MARKER.search(text))]
        self.found += markers
        if not (markers and self._refuses):
            return None
        kept = {name: value for name, value in call.items() if name not in _TABLE["fields"]}
        return msgspec.json.encode({**kept, "refused": _REFUSED % markers[0]}).decode()
