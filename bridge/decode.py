"""One record of an engine's chat completion (a chunk of its stream, or the whole answer) -> events."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.errors import EngineBroken, from_engine
from bridge.events import Done, Event, Failed, Finish, Text, Thinking, ToolPart, Usage


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Record(msgspec.Struct):
    """The fields that we read. `message` and `code` are the older way to put an error inside a stream."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None
    message: str | None = None
    code: Any = None


_parse = msgspec.json.Decoder(_Record).decode


class Decoder:
    """Keeps what one fragment of a tool call needs to know of the earlier ones."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._ids: list[str | None] = []

    def record(self, data: bytes) -> list[Event]:
        """Raises EngineBroken for data that is not an engine's JSON."""
        if data == b"[DONE]":
            return [Done()]
        try:
            record = _parse(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise EngineBroken(f"the engine sent a record that is not its protocol: {cause}") from cause
        if record.error is not None or record.object == "error":
            return [_failure(record)]
        events: list[Event] = []
        if record.usage is not None:
            events.append(_usage(record.usage))
        for choice in record.choices or ():
            if choice.index == 0:
                self._choice(choice, events)
        return events

    def _choice(self, choice: _Choice, events: list[Event]) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            if thinking := delta.reasoning or delta.reasoning_content:
                events.append(Thinking(thinking))
            if delta.content:
                events.append(Text(delta.content))
            for position, call in enumerate(delta.tool_calls or ()):
                self._tool(call, position, events)
        if choice.finish_reason:
            stop = choice.stop_reason
            events.append(Finish(choice.finish_reason, stop if isinstance(stop, str) else None))

    def _tool(self, call: _Call, position: int, events: list[Event]) -> None:
        """An id that differs from the index's own begins another call: some engines send index 0 for all of them."""
        index = position if call.index is None else call.index
        number = self._calls.get(index)
        if number is None or (call.id and self._ids[number] and call.id != self._ids[number]):
            number = self._calls[index] = len(self._ids)
            self._ids.append(None)
        if call.id:
            self._ids[number] = call.id
        function = call.function or _Function()
        events.append(ToolPart(number, call.id or None, function.name or None, function.arguments or ""))


def _usage(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    return Usage(usage.prompt_tokens or 0, cached, usage.completion_tokens or 0)


def _failure(record: _Record) -> Failed:
    error, code = record.error, record.code
    message = record.message
    if isinstance(error, dict):
        message, code = error.get("message"), error.get("code", code)
    elif isinstance(error, str):
        message = error
    status = code if isinstance(code, int) else int(code) if isinstance(code, str) and code.isdecimal() else 500
    return Failed(from_engine(status, message if isinstance(message, str) else "the engine reported an error"))
