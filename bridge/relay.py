"""Requests that are not translated: the engine's bytes pass as they are, and are read on the way for the ledger."""

from typing import NamedTuple

from bridge.answer import Answer, Head
from bridge.decode import End, Event, Finish, Part, Usage
from bridge.encode import PING, frame
from bridge.errors import BridgeError, EngineBroken, EngineGarbled, engine_message, from_engine
from bridge.ledger import Record


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


class Relay(Answer):
    """Pings come between records; a stream that the engine cuts gets its one end all the same."""

    def __init__(self, record: Record, ping_s: float, dialect: Dialect) -> None:
        super().__init__(record, ping_s if dialect.ping else None)
        self.ping = dialect.ping
        self._dialect = dialect
        self._status = 200

    def opened(self, status: int, content_type: str) -> None:
        super().opened(status, content_type)
        self._status, self.record.failed = status, status >= 400
        if not self._begun:
            self.head = Head(status, content_type)

    def _take(self, record: bytes, data: bytes, now: float) -> list[bytes]:
        refused = self._status >= 400
        if refused and (self._begun or self._dialect.rewords):
            raise from_engine(self._status, engine_message(record))
        try:
            for event in self._decoder.record(data) if data and self._dialect.reads and not refused else ():
                self._note(event, now)
        except BridgeError as error:
            if self._dialect.rewords or (self._streams and isinstance(error, EngineGarbled)):
                raise
            self.record.stop, self.record.failed = error.type, True
        return self._sent([record + b"\n\n" if self._streams else record] if record else [], now)

    def _note(self, event: Event, now: float) -> None:
        match event:
            case Part():
                self._progress(event.kind, now)
            case Usage():
                self._count(event)
            case Finish():
                self._finish = event
            case End():
                self._close()

    def _close(self) -> None:
        self.ended = True
        self.record.stop = self.record.stop or (self._finish.reason if self._finish else f"status {self._status}")

    def _end(self, now: float) -> list[bytes]:
        if self._streams and self._dialect.reads and self._finish is None and not self.record.failed:
            return self.fail(EngineBroken("the engine's answer was cut before its end"), now)
        self._close()
        return self._sent([self._dialect.done] if self._streams and self._dialect.done else [], now)

    def _cut(self, error: BridgeError) -> list[bytes]:
        streams = self.head.content_type.startswith("text/event-stream")
        return [self._dialect.error % error.envelope(self.record.request_id)] if streams else []
