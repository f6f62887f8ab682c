"""What the pod logs: one file and a ring of the last lines, both redacted. An edge: it alone writes them."""

import datetime
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from logging.handlers import RotatingFileHandler
from pathlib import Path

from bootstrap import logline
from bootstrap.redact import Redactor
from bootstrap.report import Level, LogLine, Source

RING = 5000  # lines that are kept to be asked for
FILE_LIMIT = 50_000_000  # bytes after which the file becomes pod.log.1, which the next one replaces

Hear = Callable[[str, float], None]  # takes a line, redacted, and the time


class Journal:
    """Takes lines of any source, in the order in which they come; numbers them from 1."""

    def __init__(self, folder: Path, redactor: Redactor, wall: Callable[[], float]) -> None:
        # `wall` is Unix time. Errors: OSError when the folder cannot be made or written.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.redactor, self.path, self._wall = redactor, folder / "pod.log", wall
        self._file = RotatingFileHandler(self.path, "a", FILE_LIMIT, 1, encoding="utf-8", errors="replace")
        self._ring: deque[LogLine] = deque(maxlen=RING)
        self._seq = 0

    def say(self, level: Level, text: str) -> None:
        self.take("bootstrap", f"{level.upper()} {text}")

    def take(self, source: Source, raw: str) -> str:
        """A line that a child wrote; what is kept of it. A full disk loses lines, not the supervisor."""
        safe, now = self.redactor.line(logline.clean(raw), source), self._wall()
        if logline.is_noise(safe):
            return ""
        stamp = datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="milliseconds")
        self._file.emit(logging.makeLogRecord({"msg": f"{stamp} {source:9} {safe}"}))
        level, text = logline.read(safe)
        if text:
            self._seq += 1
            self._ring.append(LogLine(self._seq, now, source, level, text))
        return safe

    def tap(self, source: Source, clock: Callable[[], float], hear: Hear) -> Callable[[bytes], None]:
        """What to feed the output of one child to."""
        splitter = logline.Splitter()

        def feed(data: bytes) -> None:
            for raw in splitter.feed(data, clock()):
                if safe := self.take(source, raw):
                    hear(safe, clock())

        return feed

    def since(self, after: int | None, limit: int = 500) -> tuple[tuple[LogLine, ...], int]:
        """Lines with seq > `after`, oldest first, and the `after` of the next call; None asks for the newest ones."""
        # An `after` that was never reached comes from an earlier supervisor, and is taken as 0.
        start = self._seq - limit if after is None else after if 0 <= after <= self._seq else 0
        lines = tuple(islice((line for line in self._ring if line.seq > start), limit))
        return lines, lines[-1].seq if lines else self._seq

    def close(self) -> None:
        self._file.close()
