"""One request's life: engine bytes in, client bytes out, exactly one end, and when to ping. What all answers share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from bridge.decode import Decoder, Finish, Kind, Usage
from bridge.errors import BridgeError, EngineBroken
from bridge.ledger import Record
from bridge.sse import MAX_RECORD, Splitter, data_of

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
_MAX_WHOLE = 4 * MAX_RECORD  # bytes of an answer in one piece


class Head(NamedTuple):
    status: int
    content_type: str
    retry_after: int | None = None


# Pure: whoever owns the connections calls opened(), then feed() for each chunk, then eof() or fail(), and tick() when
# `ping_due` has come. Whatever these return goes to the client in that order, under `head`, which is settled then.
class Answer(ABC):
    """`ping_s` is the longest silence that a streaming client is left in; None: it is never pinged."""

    ping: bytes

    def __init__(self, record: Record, ping_s: float | None) -> None:
        self.record = record
        self.head = Head(200, EVENTS if record.stream else JSON)
        self.ended = False
        self._ping_s = ping_s if record.stream else None
        self._sent_at = record.arrived_at
        self._begun = False
        self._streams = True  # the engine does
        self._splitter = Splitter()
        self._decoder = Decoder()
        self._whole = bytearray()
        self._usage = Usage(0, None, 0)
        self._finish: Finish | None = None

    @property
    def ping_due(self) -> float | None:
        return None if self._ping_s is None or self.ended else self._sent_at + self._ping_s

    def opened(self, status: int, content_type: str) -> None:
        self.record.phase = "pending"
        self._streams = content_type.startswith("text/event-stream")

    def feed(self, data: bytes, now: float) -> list[bytes]:
        if self.ended:
            return []
        if self._streams:
            return self._records(self._splitter.feed(data), now)
        self._whole += data
        if len(self._whole) > _MAX_WHOLE:
            return self.fail(EngineBroken(f"the engine's answer is larger than {_MAX_WHOLE} bytes"), now)
        return []

    def eof(self, now: float) -> list[bytes]:
        """What the engine had finished is an answer; anything less is an error."""
        if self.ended:
            return []
        out = self._records([self._splitter.rest if self._streams else bytes(self._whole)], now)
        return out if self.ended else out + self._end(now)

    def fail(self, error: BridgeError, now: float) -> list[bytes]:
        """A finished answer is still a whole one."""
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
        due = self.ping_due
        if due is None or now < due:
            return []
        self.record.pings += 1
        return self._sent([self.ping], now)

    def _records(self, records: Iterable[bytes], now: float) -> list[bytes]:
        out: list[bytes] = []
        try:
            for record in records:
                data = data_of(record) if self._streams else record
                out += self._take(record, data, now)
                if self.ended:
                    break
        except BridgeError as error:
            out += self.fail(error, now)
        return out

    def _sent(self, frames: list[bytes], now: float) -> list[bytes]:
        if frames:
            self._begun, self._sent_at = True, now
        return frames

    def _progress(self, kind: Kind, now: float) -> None:
        self.record.decodes("tool" if kind == "tool_use" else kind, now)

    # Cumulative; a field that a later record lacks keeps what was known.
    def _count(self, usage: Usage) -> None:
        known, record = self._usage, self.record
        cached = known.cached if usage.cached is None else usage.cached
        self._usage = Usage(max(usage.prompt, known.prompt), cached, max(usage.output, known.output))
        record.input_tokens, record.cached_tokens = self._usage.prompt, cached
        record.output_tokens = self._usage.output

    # One record of the engine's stream, or its whole answer, and the data of it. Raises BridgeError.
    @abstractmethod
    def _take(self, record: bytes, data: bytes, now: float) -> list[bytes]: ...

    # Nothing more comes.
    @abstractmethod
    def _end(self, now: float) -> list[bytes]: ...

    # The end of an answer that has begun and cannot be completed.
    @abstractmethod
    def _cut(self, error: BridgeError) -> list[bytes]: ...
