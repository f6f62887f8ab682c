"""Bytes of an event stream -> the data of each record, however the bytes were cut on the way."""

import re
from collections.abc import Iterator

from bridge.errors import EngineBroken

# The only three: U+2028, U+0085, \v and \f are text inside a JSON string, so splitlines() and its kin are wrong.
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
MAX_RECORD = 16 * 1024 * 1024  # bytes; one tool argument in one delta may be a whole file, nothing sane is larger


class Splitter:
    """Incremental; feed() returns the data of each record that ended. Comments and other fields are dropped."""

    def __init__(self, limit: int = MAX_RECORD) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """To be exhausted before the next call. Raises EngineBroken, after the records before it, past the limit."""
        # A line ends at its CR at once; the LF of a CRLF that was cut in two is skipped here, so nothing waits for it.
        if self._after_cr:
            chunk, self._after_cr = chunk.removeprefix(b"\n"), not chunk
        if not chunk:
            return
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        for line in lines:
            yield from self._end_line(line)
        self._line += rest
        self._check(len(self._line))

    def eof(self) -> Iterator[bytes]:
        """A last record whose blank line never came still counts: some engines end that way."""
        yield from self._end_line(b"")
        yield from self._end_line(b"")

    def _end_line(self, end: bytes) -> Iterator[bytes]:
        line = bytes(self._line) + end if self._line else end
        self._line.clear()
        self._check(len(line))
        if self._first:
            line, self._first = line.removeprefix(_BOM), False
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(self._data[-1]) + 1
        elif not line and self._data:
            yield b"\n".join(self._data)
            self._data.clear()
            self._size = 0

    def _check(self, line_size: int) -> None:
        if line_size + self._size > self._limit:
            raise EngineBroken(f"the engine sent a record of more than {self._limit} bytes")
