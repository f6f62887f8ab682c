"""A tool call's arguments as they come: sent on while they are JSON, repaired where only one reading is possible."""

import ast
import re
from typing import Any

import msgspec

_SIGN = re.compile(r"\s*(\{?)\s*(.?)", re.DOTALL)  # of an object: a brace, then a quote or a brace
_MARK = re.compile(r'\\.?|["{}\[\]\x00-\x1f]', re.DOTALL)
_json = msgspec.json.encode


# The rest after the outermost bracket is dropped: vLLM 0.32 streams one `}` too many under tool_choice "required"
# (tests/data/sse/tools_three.sse).
class Arguments:
    """take() each fragment, then finish() once. `closed` once the outermost bracket is."""

    def __init__(self) -> None:
        self.closed = False
        self._kept = ""  # what is not sent yet: a first sign, half an escape, or all of what is no JSON object
        self._is_object: bool | None = None
        self._open: list[str] = []
        self._quoted = False

    # What may be sent now.
    def take(self, text: str) -> str:
        text, self._kept = self._kept + text, ""
        if self._is_object is None and (sign := _SIGN.match(text)) and sign[2]:
            self._is_object = bool(sign[1]) and sign[2] in '"}'
        if self._is_object and not self.closed:
            return self._scan(text)
        self._kept = text
        return ""

    # What is left to send. Brackets are closed only when the engine said that it was done.
    def finish(self, complete: bool) -> str:
        if not self._is_object:
            return _read(self._kept.strip())
        return "".join(reversed(self._open)) if complete and not self._quoted else ""

    def _scan(self, text: str) -> str:
        out, at = [], 0
        for found in _MARK.finditer(text):
            mark, end = found.group(), found.end()
            if mark == '"':
                self._quoted = not self._quoted
            elif mark == "\\":  # its other half is in the next fragment
                text, self._kept = text[:-1], mark
            elif self._quoted and mark not in "{}[]":
                out += [text[at : found.start()], _sound(mark)]
                at = end
            elif not self._quoted and mark in "{[":
                self._open.append("}" if mark == "{" else "]")
            elif not self._quoted and mark in "}]":
                self._open.pop()
                if not self._open:
                    self.closed = True
                    return "".join([*out, text[at:end]])
        return "".join([*out, text[at:]]) if out else text


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
    return "'" if mark == "\\'" else "".join(_json(half).decode()[1:-1] for half in mark)


# The object that is meant by what does not begin like one: JSON within a JSON string, or what Python prints.
def _read(text: str) -> str:
    if text in ("", "null"):
        return ""
    try:
        value = ast.literal_eval(text)
        value = msgspec.json.decode(value) if isinstance(value, str) else value
        return _json(value if isinstance(value, dict) else unparsed(text)).decode()
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, msgspec.DecodeError):
        return _json(unparsed(text)).decode()
