"""A tool call's arguments: sent on while they are JSON, repaired where one reading is possible, reviewed for loss."""

import ast
import re
from typing import Any, Literal

import msgspec

from bridge.tables import TABLES

_OBJECT = re.compile(r'\s*\{\s*["}]')
_MARK = re.compile(r'\\.?|["{}\[\]\x00-\x1f]', re.DOTALL)
_CLOSERS = {'"': '"', "{": "}", "[": "]"}
as_json = msgspec.json.encode
_TABLE = TABLES["guard"]
_LINE = "|".join(_TABLE["lines"])
for _name in ("PART", "NOUN", "STATE", "GAP"):
    _LINE = _LINE.replace(_name, _TABLE[_name])
_MARKER = re.compile(f"^(?:{_LINE})$", re.IGNORECASE | re.MULTILINE | re.VERBOSE)


# take() each fragment, then finish() once. `closed` once the outermost bracket is.
# The rest after the outermost bracket is dropped: vLLM 0.32 streams one `}` too many under tool_choice "required"
# (tests/data/sse/tools_three.sse).
class Arguments:
    def __init__(self) -> None:
        self.closed = False
        self._kept = ""  # what is not sent yet: half an escape, or all of what is no JSON object
        self._open: list[str] = []  # what closes each string and bracket that is open

    # What may be sent now.
    def take(self, text: str) -> str:
        text, self._kept = self._kept + text, ""
        if not self.closed and (self._open or _OBJECT.match(text)):
            return self._scan(text)
        self._kept = text
        return ""

    # What is left to send. Brackets are closed only when the engine said that it was done.
    def finish(self, complete: bool) -> str:
        if not (self._open or self.closed):
            return _read(self._kept.strip())
        return "".join(reversed(self._open)) if complete and '"' not in self._open else ""

    def _scan(self, text: str) -> str:
        out, at = "", 0
        for found in _MARK.finditer(text):
            mark, last = found.group(), self._open[-1] if self._open else ""
            if mark == "\\":  # its other half is in the next fragment
                text, self._kept = text[:-1], mark
            elif last == '"' and mark not in '"{}[]':
                out += text[at : found.start()] + _sound(mark)
                at = found.end()
            elif mark == last:
                self._open.pop()
                if not self._open:
                    self.closed = True
                    return out + text[at : found.end()]
            elif mark in _CLOSERS and last != '"':
                self._open.append(_CLOSERS[mark])
        return out + text[at:]


# None for what is no JSON object.
def parsed(arguments: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return None


# Claude Code's own form: it answers such a call with an error that the model can act on.
def unparsed(arguments: str) -> dict[str, Any]:
    return {"__unparsedToolInput": {"raw": arguments, "len": len(arguments)}}


# Inside a string a raw control character means itself, and so do both halves of an escape that JSON does not have.
def _sound(mark: str) -> str:
    if mark[1:] in tuple('"\\/bfnrtu'):
        return mark
    return "'" if mark == "\\'" else "".join(as_json(half).decode()[1:-1] for half in mark)


# The object that is meant by what does not begin like one: JSON within a JSON string, or what Python prints.
def _read(text: str) -> str:
    if text in ("", "null"):
        return ""
    try:
        value = ast.literal_eval(text)
        value = msgspec.json.decode(value) if isinstance(value, str) else value
        return as_json(value if isinstance(value, dict) else unparsed(text)).decode()
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, msgspec.DecodeError):
        return as_json(unparsed(text)).decode()


# Whole-file writes whose content leaves out a part of the file: a "rest of file unchanged" destroys that part. What
# counts is a line that is such a marker and nothing else (tables.toml); prose, code and quoted text do not.
# In "refuse" the agent gets, instead of the content, an input that its own check refuses and that says why.
# `found` are the markers of this answer.
class Guard:
    def __init__(self, mode: Literal["off", "warn", "refuse"]) -> None:
        self.found: list[str] = []
        self._tools = [] if mode == "off" else _TABLE["tools"]
        self._refuses = mode == "refuse"

    # Whether its arguments must be whole before any of them is sent.
    def holds(self, tool: str) -> bool:
        return self._refuses and tool in self._tools

    # What to send instead of a call's arguments, which are whole; None: they are sound, or none of ours.
    def review(self, tool: str, arguments: str) -> str | None:
        call = (parsed(arguments) if tool in self._tools else None) or {}
        texts = [value for name, value in call.items() if name in _TABLE["fields"] and isinstance(value, str)]
        markers = [found.group().strip() for text in texts if (found := _MARKER.search(text))]
        self.found += markers
        if not (markers and self._refuses):
            return None
        kept = {name: value for name, value in call.items() if name not in _TABLE["fields"]}
        return as_json({**kept, "refused": _TABLE["refused"] % markers[0]}).decode()
