"""Bytes of an engine's answer, however cut -> the records of its stream -> parts of content. Both dialects."""

import re
from collections.abc import Iterable, Iterator
from itertools import count, takewhile
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from bridge.errors import EngineBroken, EngineGarbled, engine_message, from_engine
from bridge.report import Turn

# The only three ends of a line. bytes.splitlines() knows no other, str.splitlines() does: U+2028, U+0085, \v, \f.
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
MAX_RECORD = 16 * 1024 * 1024  # bytes; one tool argument in one delta may be a whole file, nothing sane is larger


# Incremental. `rest` are the bytes of the record that has not ended.
class Splitter:
    def __init__(self, limit: int = MAX_RECORD) -> None:
        self.rest, self._limit = b"", limit

    # The records that ended, without their blank line; all to be taken. Raises EngineBroken past the limit.
    def feed(self, chunk: bytes) -> Iterable[bytes]:
        known = self.rest + chunk
        *records, self.rest = known.split(b"\n\n") if b"\r" not in known else _BLANK_LINE.split(known)
        return records if len(known) <= self._limit else self._checked(records)

    # Past the end of a record `rest` may hold all but the last byte of a blank line.
    def _checked(self, records: list[bytes]) -> Iterator[bytes]:
        sane = list(takewhile(lambda record: len(record) <= self._limit, records))
        yield from sane
        if len(sane) < len(records) or len(self.rest) > self._limit + len(b"\r\n\r"):
            raise EngineBroken(f"the engine sent a record of more than {self._limit} bytes")


# Empty where there is none: comments, other fields.
def data_of(record: bytes) -> bytes:
    if record.startswith(b"data: ") and b"\n" not in record and b"\r" not in record:
        return record[6:]
    lines = record.removeprefix(b"\xef\xbb\xbf").splitlines()
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


Kind: TypeAlias = Literal["thinking", "text", "tool_use"]  # of a content block, as Anthropic names it


# A fragment of content. `call` numbers the tool calls of this answer; fragments of several may interleave.
class Part(msgspec.Struct, frozen=True, gc=False):
    kind: Kind
    text: str
    call: int | None = None
    id: str = ""
    name: str = ""


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: dict[str, str | None] | None = None  # name, arguments


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: dict[str, int | None] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


# What is read of a chat completion, of Anthropic's events and of its message. `object`, `code` and a `message` that is
# a text are of the older way to put an error inside a stream.
class _Record(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None
    code: Any = None
    type: str | None = None
    message: "_Record | str | None" = None
    content_block: dict[str, Any] = {}
    delta: dict[str, Any] = {}
    stop_reason: str | None = None


_parse = msgspec.json.Decoder(_Record).decode
_STATUS = {"overloaded_error": 503, "rate_limit_error": 429, "invalid_request_error": 400, "not_found_error": 404}


# Counts tokens into `turn`. `reason` is the engine's, once it finished; `stop` the stop string that matched.
class Decoder:
    def __init__(self, turn: Turn) -> None:
        self.reason: str | None = None
        self.stop: str | None = None
        self.ended = False  # the last record of a stream was read
        self._calls: dict[int, tuple[int, str]] = {}  # number and id of the last one at each index
        self._turn, self._numbers = turn, count()

    # Raises EngineGarbled for data that is not an engine's JSON, and what an error object in its place says.
    def read(self, data: bytes) -> list[Part]:
        parts: list[Part] = []
        self.ended = data == b"[DONE]"
        if self.ended:
            return parts
        record = _parsed(data)
        if usage := record.usage or getattr(record.message, "usage", None):
            self._count(usage)
        for choice in record.choices or ():
            if choice.index == 0:
                self._choose(choice, parts)
        if record.type is not None:
            # Anthropic's events without their text: those bytes go to the client as they are.
            if record.content_block:
                parts += [Part(kind, "") for kind in get_args(Kind) if kind == record.content_block.get("type")]
            if isinstance(reason := record.stop_reason or record.delta.get("stop_reason"), str):
                self.reason = reason
            self.ended = record.type == "message_stop"
        return parts

    # Counts are cumulative. `cached` is in the last record alone. The prompt includes it, and what was written to the
    # cache, which Anthropic's counts have apart.
    def _count(self, usage: _Usage) -> None:
        turn, details = self._turn, usage.prompt_tokens_details
        cached = details.get("cached_tokens") if details else usage.cache_read_input_tokens
        parts = (usage.input_tokens, cached, usage.cache_creation_input_tokens)
        turn.input_tokens = max(usage.prompt_tokens or sum(filter(None, parts)), turn.input_tokens or 0)
        turn.output_tokens = max(usage.completion_tokens or usage.output_tokens or 0, turn.output_tokens)
        turn.cached_tokens = turn.cached_tokens if cached is None else cached

    def _choose(self, choice: _Choice, parts: list[Part]) -> None:
        delta = choice.delta or choice.message or _Delta()
        if thinking := delta.reasoning or delta.reasoning_content:
            parts.append(Part("thinking", thinking))
        if delta.content:
            parts.append(Part("text", delta.content))
        for position, call in enumerate(delta.tool_calls or ()):
            parts.append(self._call(call, position if call.index is None else call.index))
        if choice.finish_reason in ("abort", "error"):  # vLLM's
            raise EngineBroken(f"the engine gave up this request (finish_reason {choice.finish_reason})")
        if choice.finish_reason:
            self.reason = choice.finish_reason
            self.stop = stop if isinstance(stop := choice.stop_reason, str) and self.reason == "stop" else None

    # An id that differs from the index's own begins another call: some engines send index 0 for all of them.
    def _call(self, call: _Call, index: int) -> Part:
        number, known = self._calls.get(index) or (next(self._numbers), "")
        if known and call.id not in (None, "", known):
            number, known = next(self._numbers), ""
        self._calls[index] = number, call.id or known
        function = call.function or {}
        return Part("tool_use", function.get("arguments") or "", number, call.id or "", function.get("name") or "")


def _parsed(data: bytes) -> _Record:
    try:
        record = _parse(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise EngineGarbled(f"the engine sent a record that is not its protocol: {cause}") from cause
    if record.error is not None or record.object == "error" or record.type == "error":
        error = record.error if isinstance(record.error, dict) else {}
        code = str(error.get("code", record.code))
        status = int(code) if code.isdecimal() else _STATUS.get(str(error.get("type")), 500)
        raise from_engine(status, engine_message(data))
    return record
