"""One request's life: engine bytes in, client bytes out, exactly one end, and when to ping."""

from collections.abc import Iterable
from typing import NamedTuple

from bridge.decode import Decoder, End, Event, Finish, Part, Usage
from bridge.encode import PING, frame
from bridge.errors import BridgeError, EngineBroken, EngineGarbled, engine_message, from_engine
from bridge.ledger import Record
from bridge.sse import MAX_RECORD, Splitter, data_of

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
_MAX_WHOLE = 4 * MAX_RECORD  # bytes of an answer in one piece


class Head(NamedTuple):
    status: int
    content_type: str
    retry_after: int | None = None


# What the bridge says in a client's own language where the engine does not.
class Dialect(NamedTuple):
    reads: bool = True
    ping: bytes = b""
    done: bytes = b""
    error: bytes = b"data: %b\n\n"
    rewords: bool = False  # the engine's errors are said in our words and statuses


OPENAI = Dialect(ping=b": ping\n\n", done=b"data: [DONE]\n\n")
ANTHROPIC = Dialect(ping=PING, done=frame({"type": "message_stop"}), error=b"event: error\ndata: %b\n\n", rewords=True)
UNREAD = Dialect(reads=False)


# Pure: whoever owns the connections calls opened(), then feed() for each chunk, then eof() or fail(), and tick() when
# `ping_due` has come. Whatever these return goes to the client in that order, under `head`, which is settled then.
class Answer:
    """The engine's own, passed as it is and read for the ledger. No silence of a stream is longer than `ping_s`."""

    def __init__(self, record: Record, ping_s: float, dialect: Dialect) -> None:
        self.record = record
        self.head = Head(200, EVENTS if record.stream else JSON)
        self.ended = False
        self._dialect = dialect
        self._ping_s = ping_s if record.stream and dialect.ping else None
        self._sent_at = record.arrived_at
        self._begun = False
        self._status = 200
        self._streams = True  # the engine does
        self._whole = bytearray()  # else
        self._splitter = Splitter()
        self._decoder = Decoder()
        self._usage = Usage(0, None, 0)
        self._finish: Finish | None = None

    @property
    def ping_due(self) -> float | None:
        return None if self._ping_s is None or self.ended else self._sent_at + self._ping_s

    def opened(self, status: int, content_type: str) -> None:
        self.record.phase, self.record.failed = "pending", status >= 400
        self._status, self._streams = status, content_type.startswith("text/event-stream")
        if not self._begun and not self._dialect.rewords:
            self.head = Head(status, content_type)

    def feed(self, data: bytes, now: float) -> list[bytes]:
        if self.ended:
            return []
        if self._streams:
            return self._records(self._splitter.feed(data), now)
        self._whole += data
        too_large = len(self._whole) > _MAX_WHOLE
        return self.fail(EngineBroken(f"the engine's answer is over {_MAX_WHOLE} bytes"), now) if too_large else []

    # What the engine had finished is an answer; anything less is an error.
    def eof(self, now: float) -> list[bytes]:
        if self.ended:
            return []
        out = self._records([self._splitter.rest if self._streams else bytes(self._whole)], now)
        return out if self.ended else out + self._end(now)

    # A finished answer is still a whole one.
    def fail(self, error: BridgeError, now: float) -> list[bytes]:
        if self.ended:
            return []
        if self._finish is not None:
            return self._end(now)
        self.ended = True
        self.record.stop, self.record.failed = error.type, True
        if self._begun:
            return self._cut(error)
        self.head = Head(error.status, JSON, error.retry_after)
        return [error.envelope(self.record.request_id)]

    def tick(self, now: float) -> list[bytes]:
        if self.ping_due is None or now < self.ping_due:
            return []
        self.record.pings += 1
        return self._sent([self._dialect.ping], now)

    def _records(self, records: Iterable[bytes], now: float) -> list[bytes]:
        out: list[bytes] = []
        try:
            for record in records:
                out += self._take(record, data_of(record) if self._streams else record, now)
                if self.ended:
                    break
        except BridgeError as error:
            out += self.fail(error, now)
        return out

    def _sent(self, frames: list[bytes], now: float) -> list[bytes]:
        if frames:
            self._begun, self._sent_at = True, now
        return frames

    # One record of the engine's stream, or its whole answer, and the data of it. Raises BridgeError.
    def _take(self, record: bytes, data: bytes, now: float) -> list[bytes]:
        refused = self._status >= 400
        if refused and (self._begun or self._dialect.rewords):
            raise from_engine(self._status, engine_message(record))
        try:
            for event in self._decoder.record(data) if data and self._dialect.reads and not refused else ():
                self._note(event, now)
                if isinstance(event, End):
                    self._close()
        except BridgeError as error:
            if self._dialect.rewords or (self._streams and isinstance(error, EngineGarbled)):
                raise
            self.record.stop, self.record.failed = error.type, True
        return self._sent([record + b"\n\n" if self._streams else record] if record else [], now)

    # Counts are cumulative; a field that a later record lacks keeps what was known.
    def _note(self, event: Event, now: float) -> None:
        record, known = self.record, self._usage
        if isinstance(event, Part):
            record.decodes("tool" if event.kind == "tool_use" else event.kind, now)
        elif isinstance(event, Finish):
            self._finish = event
        elif isinstance(event, Usage):
            cached = known.cached if event.cached is None else event.cached
            self._usage = Usage(max(event.prompt, known.prompt), cached, max(event.output, known.output))
            record.input_tokens, record.cached_tokens = self._usage.prompt, cached
            record.output_tokens = self._usage.output

    # Nothing more comes.
    def _end(self, now: float) -> list[bytes]:
        if self._streams and self._dialect.reads and self._finish is None and not self.record.failed:
            return self.fail(EngineBroken("the engine's answer was cut before its end"), now)
        self._close()
        return self._sent([self._dialect.done] if self._streams and self._dialect.done else [], now)

    def _close(self) -> None:
        self.ended = True
        self.record.stop = self.record.stop or (self._finish.reason if self._finish else f"status {self._status}")

    # The end of an answer that has begun and cannot be completed.
    def _cut(self, error: BridgeError) -> list[bytes]:
        streams = self.head.content_type.startswith("text/event-stream")
        return [self._dialect.error % error.envelope(self.record.request_id)] if streams else []
