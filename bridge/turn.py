"""One request's life: engine bytes in, client bytes out, exactly one terminal event, and when to ping.

Pure: whoever owns the connections calls opened(), then feed() for each chunk, then eof() or fail(), and tick() when
`ping_due` has come. Whatever these return goes to the client in that order, under the status of `head`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from bridge.answer import EVENTS, JSON, Head, Progress
from bridge.blocks import BlockEvent, Blocks
from bridge.decode import Decoder
from bridge.encode import PING, Encoder, error_event
from bridge.errors import BridgeError, EngineBroken
from bridge.events import Done, Event, Failed, Finish, Text, Thinking, ToolPart, Usage
from bridge.report import TurnPhase
from bridge.sse import MAX_RECORD, Splitter

_STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}
_FAILED_REASONS = ("abort", "error")
"""vLLM's finish_reason of a request that it gave up."""


class Turn:
    """One /v1/messages request. `ping_s` is the longest silence that the client is left in; None sends no pings."""

    def __init__(self, encoder: Encoder, *, message_id: str, request_id: str, ping_s: float | None, now: float) -> None:
        self.progress = Progress()
        self.head = Head(200, EVENTS if encoder.streams else JSON)
        self.ended = False
        self._encoder = encoder
        self._request_id = request_id
        self._ping_s = ping_s if encoder.streams else None
        self._sent_at = now
        self._sent = False
        self._started = False
        self._splitter: Splitter | None = Splitter()
        self._body = bytearray()
        self._decoder = Decoder()
        self._blocks = Blocks(message_id)
        self._usage = Usage(0, None, 0)
        self._finish: Finish | None = None

    @property
    def ping_due(self) -> float | None:
        return None if self._ping_s is None or self.ended else self._sent_at + self._ping_s

    def opened(self, status: int, content_type: str, now: float) -> None:
        """The engine's 200 arrived. An engine that answers in one piece though a stream was asked is understood."""
        self.progress.phase = "pending"
        if content_type.startswith(JSON):
            self._splitter = None

    def feed(self, data: bytes, now: float) -> list[bytes]:
        if self.ended or not data:
            return []
        self.progress.heard(now)
        if self._splitter is None:
            self._body += data
            if len(self._body) > MAX_RECORD:
                return self.fail(EngineBroken(f"the engine sent an answer of more than {MAX_RECORD} bytes"), now)
            return []
        return self._records(self._splitter.feed(data), now)

    def eof(self, now: float) -> list[bytes]:
        """The engine closed its side properly. What it had finished is an answer; anything less is an error."""
        if self.ended:
            return []
        rest = self._splitter.eof() if self._splitter is not None else [bytes(self._body)] if self._body else []
        out = self._records(rest, now)
        return out if self.ended else out + self._end(now)

    def fail(self, error: BridgeError, now: float) -> list[bytes]:
        """The engine, its connection or the bridge itself failed. A finished answer is still a whole one."""
        if self.ended:
            return []
        if self._finish is not None:
            return self._end(now)
        self.ended = True
        self.progress.stop = error.type
        self.progress.failed = True
        if self._encoder.streams and self._sent:
            frames = [self._encoder.block(event) for event in self._blocks.abandon()]
            return self._sending([*frames, error_event(error, self._request_id)], now)
        self.head = Head(error.status, JSON, error.retry_after)
        return self._sending([error.envelope(self._request_id)], now)

    def tick(self, now: float) -> list[bytes]:
        """A ping, when the client has heard nothing for `ping_s`."""
        due = self.ping_due
        if due is None or now < due:
            return []
        self.progress.pings += 1
        return self._sending([PING], now)

    def _records(self, records: Iterable[bytes], now: float) -> list[bytes]:
        out: list[bytes] = []
        try:
            for record in records:
                for event in self._decoder.record(record):
                    out += self._event(event, now)
                    if self.ended:
                        return out
        except EngineBroken as error:
            out += self.fail(error, now)
        return out

    def _event(self, event: Event, now: float) -> list[bytes]:
        match event:
            case Thinking() | Text() | ToolPart():
                return self._content(event, now)
            case Usage():
                return self._count(event, now)
            case Finish():
                self._finish = event
                return self._start(now)
            case Failed():
                return self.fail(event.error, now)
            case Done():
                return self._end(now)
            case _:
                assert_never(event)

    def _content(self, event: Thinking | Text | ToolPart, now: float) -> list[bytes]:
        progress = self.progress
        if progress.first_token_at is None:
            progress.first_token_at = now
        progress.phase = _phase(event)
        return self._start(now) + self._encode(self._blocks.take(event), now)

    def _count(self, usage: Usage, now: float) -> list[bytes]:
        """Cumulative; a field that a later record lacks keeps what was known."""
        cached = usage.cached if usage.cached is not None else self._usage.cached
        self._usage = Usage(max(usage.prompt, self._usage.prompt), cached, max(usage.output, self._usage.output))
        self.progress.input_tokens = self._usage.prompt
        self.progress.cached_tokens = self._usage.cached
        self.progress.output_tokens = self._usage.output
        return self._start(now)

    def _start(self, now: float) -> list[bytes]:
        if self._started:
            return []
        self._started = True
        return self._sending([self._encoder.start(self._usage)], now)

    def _end(self, now: float) -> list[bytes]:
        finish = self._finish
        if finish is None:
            return self.fail(EngineBroken("the engine's answer was cut before its end"), now)
        if finish.reason in _FAILED_REASONS:
            self._finish = None
            return self.fail(EngineBroken(f"the engine gave up this request (finish_reason {finish.reason})"), now)
        out = self._start(now) + self._encode(self._blocks.finish(), now)
        self.ended = True
        stop = self.progress.stop = self._stop_reason(finish)
        sequence = finish.stop if stop == "stop_sequence" else None
        return out + self._sending([self._encoder.end(stop, sequence, self._usage)], now)

    def _stop_reason(self, finish: Finish) -> str:
        """A call that a stop string cut is not to be run; with any other stop, a call is what the client must run,
        whatever the engine calls it (vLLM says "stop" for a forced tool)."""
        if finish.reason == "stop" and finish.stop is not None:
            return "stop_sequence"
        if finish.reason in _STOP_REASONS:
            return _STOP_REASONS[finish.reason]
        return "tool_use" if self._blocks.tools else "end_turn"

    def _encode(self, events: list[BlockEvent], now: float) -> list[bytes]:
        return self._sending([self._encoder.block(event) for event in events], now)

    def _sending(self, frames: list[bytes], now: float) -> list[bytes]:
        frames = [frame for frame in frames if frame]
        if frames:
            self._sent = True
            self._sent_at = now
        return frames


def _phase(event: Thinking | Text | ToolPart) -> TurnPhase:
    match event:
        case Thinking():
            return "thinking"
        case Text():
            return "text"
        case ToolPart():
            return "tool"
        case _:
            assert_never(event)
