"""What the pod logs: a file per source and a ring of the last lines, both redacted. An edge: it alone writes them."""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal

from bootstrap import logline
from bootstrap.redact import Redactor
from bootstrap.report import Level, LogLine

Source = Literal["bootstrap", "engine", "bridge"]
RING = 5000
"""Lines that are kept to be asked for."""
FILE_LIMIT = 50_000_000
"""Bytes of one file before it becomes <name>.log.1, which the next one replaces."""
_ANSWER_CHARS = 200_000


class Journal:
    """Takes lines of any source, in the order in which they come; numbers them from 1."""

    def __init__(self, folder: Path, redactor: Redactor, wall: Callable[[], float]) -> None:
        """`wall` is Unix time. Errors: OSError when the folder cannot be made or written."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._redactor, self._wall = redactor, wall
        self._files = {source: LogFile(folder / f"{source}.log") for source in ("bootstrap", "engine", "bridge")}
        self._ring: deque[LogLine] = deque(maxlen=RING)
        self._seq = 0

    def say(self, level: Level, text: str) -> None:
        """A line of the supervisor's own."""
        safe = self._redactor.line(logline.clean(text))
        self._write("bootstrap", f"{level.upper()} {safe}")
        self._keep("bootstrap", level, logline.bound(safe))

    def take(self, source: Source, raw: str) -> None:
        """A line that a child wrote."""
        safe = self._redactor.line(logline.clean(raw))
        if logline.is_noise(safe):
            return
        self._write(source, safe)
        level, text = logline.read(safe)
        if text:
            self._keep(source, level, text)

    def tap(self, source: Source, clock: Callable[[], float]) -> Callable[[bytes], None]:
        """What to feed the output of one child to."""
        splitter = logline.Splitter()

        def feed(data: bytes) -> None:
            for raw in splitter.feed(data, clock()):
                self.take(source, raw)

        return feed

    def since(self, after: int | None, limit: int = 500) -> tuple[tuple[LogLine, ...], int]:
        """Lines with seq > `after`, oldest first, and the `after` of the next call; None asks for the newest ones.

        An `after` that was never reached comes from an earlier supervisor, and is taken as 0.
        """
        first = self._ring[0].seq if self._ring else 1
        start = self._seq - limit if after is None else after if 0 <= after <= self._seq else 0
        offset = max(0, start + 1 - first)
        lines: list[LogLine] = []
        chars = 0
        for index in range(offset, min(len(self._ring), offset + limit)):
            chars += len(self._ring[index].text)
            if lines and chars > _ANSWER_CHARS:
                break
            lines.append(self._ring[index])
        return tuple(lines), lines[-1].seq if lines else self._seq

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _keep(self, source: Source, level: Level, text: str) -> None:
        self._seq += 1
        self._ring.append(LogLine(self._seq, self._wall(), source, level, text))

    def _write(self, source: Source, text: str) -> None:
        stamp = datetime.datetime.fromtimestamp(self._wall(), datetime.UTC).isoformat(timespec="milliseconds")
        problem = self._files[source].write(f"{stamp} {text}\n")
        if problem:
            self._keep(
                "bootstrap", "warning", f"cannot write {source}.log: {problem}; its lines are kept in memory only"
            )


class LogFile:
    """One file that is appended to and never grows past FILE_LIMIT. A full disk loses lines, not the supervisor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._size = self._file.tell()
        self._failing = False

    def write(self, line: str) -> str | None:
        """Append. What went wrong, the first time that it does."""
        data = line.encode(errors="replace")
        try:
            if self._size + len(data) > FILE_LIMIT:
                self._file.close()
                self._path.replace(self._path.with_suffix(".log.1"))
                self._file, self._size = self._path.open("ab", buffering=0), 0
            self._file.write(data)
        except OSError as error:
            first, self._failing = not self._failing, True
            return (error.strerror or str(error)) if first else None
        self._size += len(data)
        self._failing = False
        return None

    def close(self) -> None:
        self._file.close()
