"""What an exchange drives, whatever the dialect: the protocol of an answer, its progress, and the plain relay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from bridge.errors import BridgeError
from bridge.report import TurnPhase

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of the answer to the client."""

    status: int
    content_type: str
    retry_after: int | None = None


@dataclass(slots=True)
class Progress:
    """What the ledger reads of a live request. Times are the exchange's clock, in seconds."""

    phase: TurnPhase = "connecting"
    first_token_at: float | None = None
    last_byte_at: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int = 0
    pings: int = 0
    stop: str | None = None
    """stop_reason, or the error's type; None while it lives."""
    failed: bool = False
    gaps: list[float] = field(default_factory=list)
    """Seconds between successive reads while it decodes, until the ledger takes them."""

    def heard(self, now: float) -> None:
        if self.first_token_at is not None and self.last_byte_at is not None:
            self.gaps.append(now - self.last_byte_at)
        self.last_byte_at = now


class Answer(Protocol):
    """What an exchange drives: a Turn, or a Relay of bytes that are not ours to read."""

    progress: Progress
    head: Head
    """Settled as soon as anything was returned to be sent."""
    ended: bool

    @property
    def ping_due(self) -> float | None: ...
    def opened(self, status: int, content_type: str, now: float) -> None: ...
    def feed(self, data: bytes, now: float) -> list[bytes]: ...
    def eof(self, now: float) -> list[bytes]: ...
    def fail(self, error: BridgeError, now: float) -> list[bytes]: ...
    def tick(self, now: float) -> list[bytes]: ...


class Relay:
    """An OpenAI request passed through: the engine's status, type and bytes, unread."""

    def __init__(self, *, request_id: str) -> None:
        self.progress = Progress()
        self.head = Head(200, JSON)
        self.ended = False
        self._request_id = request_id
        self._begun = False

    @property
    def ping_due(self) -> float | None:
        return None

    def opened(self, status: int, content_type: str, now: float) -> None:
        self.progress.phase = "pending"
        self.progress.failed = status >= 400
        self.head = Head(status, content_type)

    def feed(self, data: bytes, now: float) -> list[bytes]:
        if self.ended or not data:
            return []
        progress = self.progress
        progress.heard(now)
        if progress.first_token_at is None:
            progress.first_token_at = now
        progress.phase = "text"
        self._begun = True
        return [data]

    def eof(self, now: float) -> list[bytes]:
        self.ended = True
        self.progress.stop = f"status {self.head.status}"
        return []

    def fail(self, error: BridgeError, now: float) -> list[bytes]:
        """After the first byte, in a stream, the error is one more record; OpenAI clients read an `error` object."""
        if self.ended:
            return []
        self.ended = True
        self.progress.stop = error.type
        self.progress.failed = True
        if not self._begun:
            self.head = Head(error.status, JSON, error.retry_after)
            return [error.envelope(self._request_id)]
        if self.head.content_type.startswith("text/event-stream"):
            return [b"\n\ndata: %b\n\n" % error.envelope(self._request_id)]
        return []

    def tick(self, now: float) -> list[bytes]:
        return []
