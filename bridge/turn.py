"""A /v1/messages request, translated: the engine's chat completion -> Anthropic's stream, or its one message."""

from bridge.answer import ANTHROPIC, Answer
from bridge.blocks import Blocks
from bridge.decode import Part
from bridge.encode import Sent, as_json, frame, message, message_delta
from bridge.errors import BridgeError, EngineBroken
from bridge.guard import Guard
from bridge.ledger import Record

_STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}
_DONE_REASONS = ("stop", "tool_calls")
_TELL_S = 0.5  # between two counts of tokens to a client


class Turn(Answer):
    """Its message has the record's id. `max_tokens` are what the client asked for."""

    def __init__(self, record: Record, ping_s: float, max_tokens: int, guard: Guard | None = None) -> None:
        super().__init__(record, ping_s, ANTHROPIC)
        self._max_tokens = max_tokens
        self._guard = guard
        self._started = False
        self._told_at = 0.0
        self._blocks = Blocks(record.id, guard)

    def _take(self, record: bytes, data: bytes, now: float) -> list[bytes]:
        events = [event for part in self._read(data, now) for event in self._blocks.take(part)]
        if self._decoder.ended:
            return self._end(now)
        counting = self._started and self.record.output_tokens and self._decoder.reason is None
        if counting and now - self._told_at >= _TELL_S:
            self._told_at = now
            events.append(message_delta(self.record))
        return self._send(events, now)

    def _end(self, now: float) -> list[bytes]:
        reason = self._decoder.reason
        if reason is None:
            return self.fail(EngineBroken("the engine's answer was cut before its end"), now)
        matched = self._decoder.stop if reason == "stop" else None
        closing = self._blocks.finish(complete=reason in _DONE_REASONS and matched is None)
        content = self._blocks.content
        stop = self.record.stop = self._stop_reason(reason, matched)
        if stop == "end_turn" and {block["type"] for block in content} == {"thinking"}:
            # The whole answer was taken for reasoning; a summary without a text would lose its conversation.
            closing += self._blocks.take(Part("text", "".join(block["thinking"] for block in content)))
            closing += self._blocks.finish(complete=True)
        self.record.guarded = self._guard.found[0] if self._guard and self._guard.found else None
        self.ended = True
        if not self.record.stream:
            return self._sent([as_json(message(self.record, content, stop, matched))], now)
        return self._send([*closing, message_delta(self.record, stop, matched), {"type": "message_stop"}], now)

    def _stop_reason(self, reason: str, matched: str | None) -> str:
        if matched is not None:  # a call that this cut is not to be run
            return "stop_sequence"
        if reason == "length" and 0 < self.record.output_tokens < self._max_tokens:
            return "model_context_window_exceeded"
        # A call is to be run whatever the engine calls this stop: vLLM says "stop" for a forced tool.
        called = any(block["type"] == "tool_use" for block in self._blocks.content)
        return _STOP_REASONS.get(reason, "tool_use" if called else "end_turn")

    # Whatever comes first, message_start goes before it; until then a failure has its own status.
    def _send(self, events: list[Sent], now: float) -> list[bytes]:
        if not (events and self.record.stream):
            return []
        if not self._started:
            self._started, self._told_at = True, now
            events = [{"type": "message_start", "message": message(self.record, [])}, *events]
        return self._sent([frame(event) for event in events], now)

    # Before the message's start Claude Code asks again for a stream, after this type alone (docs/bridge.md).
    def _cut(self, error: BridgeError) -> list[bytes]:
        kind = "overloaded_error" if error.status >= 500 and not self._started else None
        envelope = error.envelope(self.record.request_id, kind)
        return [*map(frame, self._blocks.abandon()), self._dialect.error % envelope]
