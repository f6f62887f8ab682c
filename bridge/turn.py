"""One request's life: engine bytes in, client bytes out, exactly one terminal event, and when to ping.

Pure: whoever owns the connections calls opened(), then feed() for each chunk, then eof() or fail(), and tick() when
`ping_due` has come. Whatever these return goes to the client in that order, under `head`, which is settled then.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bridge.blocks import Blocks
from bridge.decode import Decoder, Event, Finish, Part, Usage
from bridge.encode import PING, Fold, Sent, frame, message_end, message_start
from bridge.errors import BridgeError, EngineBroken
from bridge.ledger import Record
from bridge.sse import Splitter

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
_STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}
_FAILED_REASONS = ("abort", "error")  # vLLM's, of a request that it gave up


class Head(NamedTuple):
    status: int
    content_type: str
    retry_after: int | None = None


class Relay:
    """An OpenAI request passed through: the engine's status, type and bytes, unread."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.head = Head(200, JSON)
        self.ended = False
        self._begun = False

    @property
    def ping_due(self) -> float | None:
        return None

    def opened(self, status: int, content_type: str) -> None:
        self.record.phase = "pending"
        self.record.failed = status >= 400
        self.head = Head(status, content_type)

    def feed(self, data: bytes, now: float) -> list[bytes]:
        return self._take(data, now) if data and not self.ended else []

    def eof(self, now: float) -> list[bytes]:
        self.ended = True
        self.record.stop = f"status {self.head.status}"
        return []

    def fail(self, error: BridgeError, now: float) -> list[bytes]:
        if self.ended:
            return []
        self.ended = True
        self.record.stop, self.record.failed = error.type, True
        envelope = error.envelope(self.record.request_id)
        if self._begun:
            return self._cut(envelope)
        self.head = Head(error.status, JSON, error.retry_after)
        return [envelope]

    def tick(self, now: float) -> list[bytes]:
        return []

    def _take(self, data: bytes, now: float) -> list[bytes]:
        self.record.decodes("text", now)
        self._begun = True
        return [data]

    def _cut(self, envelope: bytes) -> list[bytes]:
        """In a stream the error is one more record; OpenAI clients read an `error` object."""
        return [b"\n\ndata: %b\n\n" % envelope] if self.head.content_type.startswith("text/event-stream") else []


class Turn(Relay):
    """A /v1/messages request, translated; its message has the record's id. `ping_s` is the longest silence that a
    streaming client is left in."""

    def __init__(self, record: Record, ping_s: float) -> None:
        super().__init__(record)
        self.head = Head(200, EVENTS if record.stream else JSON)
        self._encode = frame if record.stream else Fold().take
        self._ping_s = ping_s
        self._sent_at = record.arrived_at
        self._started = False
        self._splitter = Splitter()
        self._decoder = Decoder()
        self._blocks = Blocks(record.id)
        self._usage = Usage(0, None, 0)
        self._finish: Finish | None = None

    @property
    def ping_due(self) -> float | None:
        return self._sent_at + self._ping_s if self.record.stream and not self.ended else None

    def opened(self, status: int, content_type: str) -> None:
        self.record.phase = "pending"
        # An engine that answers in one piece though a stream was asked: its JSON, one line, is the data of one record.
        if content_type.startswith(JSON):
            self._records(self._splitter.feed(b"data: "), now=0.0)

    def _take(self, data: bytes, now: float) -> list[bytes]:
        return self._records(self._splitter.feed(data), now)

    def eof(self, now: float) -> list[bytes]:
        """What the engine had finished is an answer; anything less is an error."""
        if self.ended:
            return []
        out = self._records(self._splitter.eof(), now)
        return out if self.ended else out + self._end(now)

    def fail(self, error: BridgeError, now: float) -> list[bytes]:
        """A finished answer is still a whole one."""
        return self._end(now) if self._finish is not None and not self.ended else super().fail(error, now)

    def tick(self, now: float) -> list[bytes]:
        due = self.ping_due
        if due is None or now < due:
            return []
        self.record.pings += 1
        self._begun, self._sent_at = True, now
        return [PING]

    def _cut(self, envelope: bytes) -> list[bytes]:
        return [*map(frame, self._blocks.abandon()), b"event: error\ndata: %b\n\n" % envelope]

    def _records(self, records: Iterable[bytes], now: float) -> list[bytes]:
        out: list[bytes] = []
        try:
            for record in records:
                if record == b"[DONE]":
                    return out + self._end(now)
                for event in self._decoder.record(record):
                    out += self._send(self._event(event, now), now)
        except BridgeError as error:
            out += self.fail(error, now)
        return out

    def _event(self, event: Event, now: float) -> list[Sent]:
        if isinstance(event, Part):
            self.record.decodes("tool" if event.kind == "tool_use" else event.kind, now)
            return self._blocks.take(event)
        if isinstance(event, Usage):
            self._count(event)
        else:
            self._finish = event
        return []

    def _count(self, usage: Usage) -> None:
        """Cumulative; a field that a later record lacks keeps what was known."""
        known, record = self._usage, self.record
        cached = known.cached if usage.cached is None else usage.cached
        self._usage = Usage(max(usage.prompt, known.prompt), cached, max(usage.output, known.output))
        record.input_tokens, record.cached_tokens = self._usage.prompt, cached
        record.output_tokens = self._usage.output

    def _end(self, now: float) -> list[bytes]:
        finish, self._finish = self._finish, None
        if finish is None:
            return self.fail(EngineBroken("the engine's answer was cut before its end"), now)
        if finish.reason in _FAILED_REASONS:
            return self.fail(EngineBroken(f"the engine gave up this request (finish_reason {finish.reason})"), now)
        closing = self._blocks.finish()
        stop = self.record.stop = self._stop_reason(finish)
        sequence = finish.stop if stop == "stop_sequence" else None
        out = self._send([*closing, *message_end(stop, sequence, self._usage)], now)
        self.ended = True
        return out

    def _stop_reason(self, finish: Finish) -> str:
        if finish.reason == "stop" and finish.stop is not None:  # a call that this cut is not to be run
            return "stop_sequence"
        # A call is to be run whatever the engine calls this stop: vLLM says "stop" for a forced tool.
        return _STOP_REASONS.get(finish.reason, "tool_use" if self._blocks.called else "end_turn")

    def _send(self, events: list[Sent], now: float) -> list[bytes]:
        """Whatever comes first, message_start goes before it."""
        if not self._started:
            self._started = True
            events = [message_start(self.record.id, self.record.model, self._usage), *events]
        frames = [data for event in events if (data := self._encode(event))]
        if frames:
            self._begun, self._sent_at = True, now
        return frames
