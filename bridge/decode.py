"""One record of an engine's chat completion (a chunk of its stream, or the whole answer) -> events, in our words."""

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from bridge.errors import EngineBroken, engine_message, from_engine

Kind: TypeAlias = Literal["thinking", "text", "tool_use"]  # of a content block, as Anthropic names it


class Part(msgspec.Struct, frozen=True, gc=False):
    """A fragment of content. `call` numbers the tool calls of this answer; fragments of several may interleave."""

    kind: Kind
    text: str
    call: int | None = None
    id: str = ""
    name: str = ""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Cumulative counts. `prompt` includes `cached`; `cached` is None until the engine says (its last record)."""

    prompt: int
    cached: int | None
    output: int


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The engine's finish_reason, and the stop string that matched if one did."""

    reason: str
    stop: str | None


Event: TypeAlias = Part | Usage | Finish


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
    """The fields that we read. `object` and `code` are of the older way to put an error inside a stream."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None
    code: Any = None


_parse = msgspec.json.Decoder(_Record).decode


class Decoder:
    """Keeps what one fragment of a tool call needs to know of the earlier ones."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._ids: list[str] = []

    def record(self, data: bytes) -> Iterator[Event]:
        """Raises EngineBroken for data that is not an engine's JSON, and what an error object in its place says."""
        try:
            record = _parse(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise EngineBroken(f"the engine sent a record that is not its protocol: {cause}") from cause
        if record.error is not None or record.object == "error":
            code = record.error.get("code", record.code) if isinstance(record.error, dict) else record.code
            raise from_engine(int(code) if str(code).isdecimal() else 500, engine_message(data))
        if (usage := record.usage) is not None:
            cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
            yield Usage(usage.prompt_tokens or 0, cached, usage.completion_tokens or 0)
        for choice in record.choices or ():
            if choice.index == 0:
                yield from self._choice(choice)

    def _choice(self, choice: _Choice) -> Iterator[Event]:
        delta = choice.delta or choice.message or _Delta()
        if thinking := delta.reasoning or delta.reasoning_content:
            yield Part("thinking", thinking)
        if delta.content:
            yield Part("text", delta.content)
        for position, call in enumerate(delta.tool_calls or ()):
            yield self._call(call, position if call.index is None else call.index)
        if choice.finish_reason:
            yield Finish(choice.finish_reason, choice.stop_reason if isinstance(choice.stop_reason, str) else None)

    def _call(self, call: _Call, index: int) -> Part:
        """An id that differs from the index's own begins another call: some engines send index 0 for all of them."""
        number, call_id = self._calls.get(index), call.id or ""
        if number is None or (call_id and self._ids[number] not in ("", call_id)):
            number = self._calls[index] = len(self._ids)
            self._ids.append("")
        self._ids[number] = call_id or self._ids[number]
        function = call.function or _Function()
        return Part("tool_use", function.arguments or "", number, call_id, function.name or "")
