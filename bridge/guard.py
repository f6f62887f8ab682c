"""Writes of a whole file whose content leaves out a part of it: an explicit "rest of file unchanged" destroys that part.

What counts is a line that is such a marker and nothing else; prose, code and quoted text that speak of one do not.
"""

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


class Guard:
    """`found` are the markers of this answer. In "refuse" the agent gets, instead of the content, an input that its own
    check refuses and that says why; in "warn" the call goes through."""

    def __init__(self, mode: Literal["warn", "refuse"]) -> None:
        self.found: list[str] = []
        self._mode = mode

    def holds(self, tool: str) -> bool:
        """Whether its arguments must be whole before any of them is sent."""
        return self._mode == "refuse" and tool in _TABLE["tools"]

    def review(self, tool: str, sent: str, unsent: str) -> str:
        """What to send of a call's arguments that are whole now."""
        call = parsed(sent + unsent) if tool in _TABLE["tools"] else None
        fields = [name for name in _TABLE["fields"] if isinstance((call or {}).get(name), str)]
        markers = [found.group().strip() for name in fields if (found := _MARKER.search((call or {})[name]))]
        self.found += markers
        if not (call and markers and self.holds(tool)):
            return unsent
        kept = {name: value for name, value in call.items() if name not in fields}
        return msgspec.json.encode({**kept, "refused": _REFUSED % markers[0]}).decode()
