"""What the pod logs: a file per source and a ring of the last lines, both redacted. An edge: it alone writes them."""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from bootstrap import logline
from bootstrap.redact import Redactor
from bootstrap.report import Level, LogLine

Source = Literal["bootstrap", "engine", "bridge"]
RING = 5000  # lines that are kept to be asked for
FILE_LIMIT = 50_000_000  # bytes after which a file becomes <name>.log.1, which the next one replaces


class Journal:
    """Takes lines of any source, in the order in which they come; numbers them from 1."""

    def __init__(self, folder: Path, redactor: Redactor, wall: Callable[[], float]) -> None:
        """`wall` is Unix time. Errors: OSError when the folder cannot be made or written."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.redactor, self._wall = redactor, wall
        self._paths: dict[Source, Path] = {name: folder / f"{name}.log" for name in get_args(Source)}
        self._files = {name: path.open("ab", buffering=0) for name, path in self._paths.items()}
        self._failing: set[Source] = set()
        self._ring: deque[LogLine] = deque(maxlen=RING)
        self._seq = 0

    def say(self, level: Level, text: str) -> None:
        """A line of the supervisor's own."""
        self.take("bootstrap", f"{level.upper()} {text}")

    def take(self, source: Source, raw: str) -> None:
        """A line that a child wrote."""
        safe = self.redactor.line(logline.clean(raw))
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
        start = self._seq - limit if after is None else after if 0 <= after <= self._seq else 0
        lines = tuple(islice((line for line in self._ring if line.seq > start), limit))
        return lines, lines[-1].seq if lines else self._seq

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _keep(self, source: Source, level: Level, text: str) -> None:
        self._seq += 1
        self._ring.append(LogLine(self._seq, self._wall(), source, level, text))

    def _write(self, source: Source, text: str) -> None:
        """A full disk loses lines, not the supervisor, and is said once."""
        stamp = datetime.datetime.fromtimestamp(self._wall(), datetime.UTC).isoformat(timespec="milliseconds")
        file, path = self._files[source], self._paths[source]
        try:
            if file.tell() > FILE_LIMIT:
                path.replace(path.with_suffix(".log.1"))
                self._files[source] = path.open("ab", buffering=0)
                file.close()
            self._files[source].write(f"{stamp} {text}\n".encode(errors="replace"))
            self._failing.discard(source)
        except OSError as error:
            if source not in self._failing:
                self._failing.add(source)
                why = f"cannot write {source}.log: {error.strerror}; its lines are kept in memory only"
                self._keep("bootstrap", "warning", why)
