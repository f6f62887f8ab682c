"""Bytes of an event stream -> the data of each record, however the bytes were cut on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bridge.errors import EngineBroken

_LINE_END = re.compile(rb"\r\n|\n|\r")
"""The only three: U+2028, U+0085, \\v and \\f are text inside a JSON string, so splitlines() and its kin are wrong."""
_BOM = b"\xef\xbb\xbf"

MAX_RECORD = 16 * 1024 * 1024
"""Bytes of one record. One tool argument in one delta may be a whole file; nothing sane is larger."""


class Splitter:
    """Incremental; feed() returns the data of each record that ended. Comments and other fields are dropped.

    A line ends at its CR at once; the LF of a CRLF that was cut in two is then skipped, so nothing waits for it.
    """

    def __init__(self, limit: int = MAX_RECORD) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """To be exhausted before the next call. Raises EngineBroken, after the records before it, past the limit."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        for line in lines:
            yield from self._end_line(self._whole_line(line))
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            self._check(self._line_size)

    def eof(self) -> Iterator[bytes]:
        """A last record whose blank line never came still counts: some engines end that way."""
        if self._line:
            yield from self._end_line(self._whole_line(b""))
        yield from self._end_line(b"")

    def _whole_line(self, end: bytes) -> bytes:
        if not self._line:
            return end
        self._line.append(end)
        line = b"".join(self._line)
        self._line.clear()
        self._line_size = 0
        return line

    def _end_line(self, line: bytes) -> Iterator[bytes]:
        self._check(len(line))
        if self._first:
            line = line.removeprefix(_BOM)
            self._first = False
        if not line:
            if self._data:
                record = b"\n".join(self._data)
                self._data.clear()
                self._data_size = 0
                yield record
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._data_size += len(value) + 1

    def _check(self, line_size: int) -> None:
        if line_size + self._data_size > self._limit:
            raise EngineBroken(f"the engine sent a record of more than {self._limit} bytes")
