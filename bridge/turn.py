"""One request's life: engine bytes in, client bytes out, exactly one end, and when to ping."""

from collections.abc import Iterable
from typing import NamedTuple

from bridge.arguments import Guard, as_json
from bridge.blocks import PING, Blocks, Sent, frame, message, message_delta
from bridge.decode import MAX_RECORD, Decoder, Part, Splitter, data_of
from bridge.errors import BridgeError, EngineBroken, EngineGarbled, engine_message, from_engine
from bridge.ledger import Record

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
_MAX_WHOLE = 4 * MAX_RECORD  # bytes of an answer in one piece
# An answer in one piece may be silent for less than RunPod's proxy allows (100 s). Then its status is given away for
# spaces, which JSON allows in front; should it fail later, its connection is cut, which clients take as retryable.
PAD_FIRST_S, PAD_S = 60.0, 15.0
_STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}
_CUT = "the engine's answer was cut before its end"
_TELL_S = 0.5  # between two counts of tokens to a client


class Head(NamedTuple):
    status: int
    content_type: str
    retry_after: int | None = None

    @property
    def streams(self) -> bool:
        return self.content_type.startswith("text/event-stream")


# What the bridge says in a client's own language where the engine does not. To Anthropic's clients the engine's errors
# are said in our words and statuses.
class Dialect(NamedTuple):
    ping: bytes = b""
    done: bytes = b""
    error: bytes = b"data: %b\n\n"


OPENAI = Dialect(ping=b": ping\n\n", done=b"data: [DONE]\n\n")
ANTHROPIC = Dialect(ping=PING, done=frame({"type": "message_stop"}), error=b"event: error\ndata: %b\n\n")
UNREAD = Dialect()


# Pure: whoever owns the connections calls opened(), then feed() for each chunk, then eof() or fail(), and tick() when
# `ping_due` has come. Whatever these return goes to the client in that order, under `head`, which is settled then.
# The engine's own answer, passed as it is and read for the ledger. No silence of a stream is longer than `ping_s`.
class Answer:
    def __init__(self, record: Record, ping_s: float, dialect: Dialect) -> None:
        self.record, self._dialect = record, dialect
        self.head = Head(200, EVENTS if record.stream else JSON)
        self.ended = self._begun = False
        self._ping_s, self._sent_at = ping_s, record.arrived_at
        self._status, self._streams = 200, True  # of the engine's answer
        self._whole = bytearray()  # of an engine that does not stream
        self._splitter, self._decoder = Splitter(), Decoder(record)

    @property
    def ping_due(self) -> float | None:
        if self.ended or (self.head.streams and not self._dialect.ping):
            return None
        pad_s = PAD_S if self._begun else PAD_FIRST_S
        return self._sent_at + (self._ping_s if self.head.streams else pad_s)

    def opened(self, status: int, content_type: str) -> None:
        self.record.phase, self.record.failed = "pending", status >= 400
        head = Head(status, content_type)
        self._status, self._streams = status, head.streams
        if not self._begun and self._dialect is not ANTHROPIC:
            self.head = head

    def feed(self, data: bytes, now: float) -> list[bytes]:
        if self._streams:
            return self._records(self._splitter.feed(data), now)
        self._whole += data
        too_large = len(self._whole) > _MAX_WHOLE
        return self.fail(EngineBroken(f"the engine's answer is over {_MAX_WHOLE} bytes"), now) if too_large else []

    # What the engine had finished is an answer; anything less is an error.
    def eof(self, now: float) -> list[bytes]:
        return self._records([self._splitter.rest if self._streams else bytes(self._whole)], now, last=True)

    # A finished answer is still a whole one. One that has begun and is no stream can only be cut.
    def fail(self, error: BridgeError, now: float) -> list[bytes]:
        if self.ended:
            return []
        if self._decoder.reason is not None:
            return self._end(now)
        self.ended = True
        self.record.stop, self.record.failed = error.type, True
        if self._begun:
            return self._cut(error) if self.head.streams else []
        self.head = Head(error.status, JSON, error.retry_after)
        return [error.envelope(self.record.request_id)]

    def tick(self, now: float) -> list[bytes]:
        if self.ping_due is None or now < self.ping_due:
            return []
        self.record.pings += 1
        return self._sent([self._dialect.ping if self.head.streams else b" "], now)

    def _records(self, records: Iterable[bytes], now: float, last: bool = False) -> list[bytes]:
        out: list[bytes] = []
        try:
            for record in records:
                if not self.ended:
                    out += self._take(record, data_of(record) if self._streams else record, now)
            if last and not self.ended:
                out += self._end(now)
        except BridgeError as error:
            return self._sent(out, now) + self.fail(error, now)
        return self._sent(out, now)

    def _sent(self, frames: list[bytes], now: float) -> list[bytes]:
        if frames:
            self._begun, self._sent_at = True, now
        return frames

    # One record of the engine's stream, or its whole answer, and the data of it. Raises BridgeError.
    def _take(self, record: bytes, data: bytes, now: float) -> list[bytes]:
        if self._status >= 400 and self.head.status != self._status:  # the refusal is not told by the head
            raise from_engine(self._status, engine_message(record))
        try:
            if self._dialect is not UNREAD and self._status < 400:
                self._read(data, now)
        except BridgeError as error:
            if self._dialect is ANTHROPIC or (self._streams and isinstance(error, EngineGarbled)):
                raise
            self.record.stop, self.record.failed = error.type, True
        if self._decoder.ended:
            self._close()
        return [record + b"\n\n" if self._streams else record] if record else []

    def _read(self, data: bytes, now: float) -> list[Part]:
        parts = self._decoder.read(data) if data else []
        if parts:
            kind = parts[-1].kind
            self.record.decodes("tool" if kind == "tool_use" else kind, now)
        return parts

    # Nothing more comes. Raises EngineBroken for less than an answer.
    def _end(self, now: float) -> list[bytes]:
        if self._streams and self._dialect is not UNREAD and self._decoder.reason is None and not self.record.failed:
            raise EngineBroken(_CUT)
        self._close()
        return [self._dialect.done] if self._streams and self._dialect.done else []

    def _close(self) -> None:
        self.ended = True
        self.record.stop = self.record.stop or self._decoder.reason or f"status {self._status}"

    # The end of a stream that has begun and cannot be completed.
    def _cut(self, error: BridgeError) -> list[bytes]:
        return [self._dialect.error % error.envelope(self.record.request_id)]


# The engine's chat completion as Anthropic's stream, or its one message. Both have the record's id.
class Turn(Answer):
    def __init__(self, record: Record, ping_s: float, max_tokens: int, guard: Guard) -> None:
        super().__init__(record, ping_s, ANTHROPIC)
        self._max_tokens, self._guard = max_tokens, guard
        self._told_at = float("inf")  # until the message starts
        self._blocks = Blocks(record.id, guard)

    def _take(self, record: bytes, data: bytes, now: float) -> list[bytes]:
        events = [event for part in self._read(data, now) for event in self._blocks.take(part)]
        if self._decoder.ended:
            return self._end(now)
        if now - self._told_at >= _TELL_S and self.record.output_tokens and self._decoder.reason is None:
            self._told_at = now
            events.append(message_delta(self.record))
        return self._framed(events, now)

    def _end(self, now: float) -> list[bytes]:
        reason, matched = self._decoder.reason, self._decoder.stop
        if reason is None:
            raise EngineBroken(_CUT)
        closing = self._blocks.finish(complete=reason in ("stop", "tool_calls") and matched is None)
        kinds = {block["type"] for block in self._blocks.content}
        # A call is to be run whatever the engine calls this stop (vLLM: "stop" for a forced tool), unless it was cut.
        usual = _STOP_REASONS.get(reason, "tool_use" if "tool_use" in kinds else "end_turn")
        stop = usual if matched is None else "stop_sequence"
        if reason == "length" and 0 < self.record.output_tokens < self._max_tokens:
            stop = "model_context_window_exceeded"
        if stop == "end_turn" and kinds == {"thinking"}:
            # The whole answer was taken for reasoning; a summary without a text would lose its conversation.
            closing += self._blocks.take(Part("text", "".join(block["thinking"] for block in self._blocks.content)))
            closing += self._blocks.finish(complete=True)
        self.ended, self.record.stop = True, stop
        self.record.guarded = next(iter(self._guard.found), None)
        if not self.record.stream:
            return [as_json(message(self.record, self._blocks.content, stop, matched))]
        return self._framed([*closing, message_delta(self.record, stop, matched), {"type": "message_stop"}], now)

    # Whatever comes first, message_start goes before it; until then a failure has its own status.
    def _framed(self, events: list[Sent], now: float) -> list[bytes]:
        if not (events and self.record.stream):
            return []
        if self._told_at > now:
            self._told_at = now
            events = [{"type": "message_start", "message": message(self.record, [])}, *events]
        return [frame(event) for event in events]

    # Before the message's start Claude Code asks again for a stream, after this type alone (docs/bridge.md).
    def _cut(self, error: BridgeError) -> list[bytes]:
        kind = "overloaded_error" if error.status >= 500 and self._told_at == float("inf") else None
        return [*map(frame, self._blocks.abandon()), ANTHROPIC.error % error.envelope(self.record.request_id, kind)]
