"""Bytes of an event stream -> its records, however the bytes were cut on the way, and the data of each."""

import re
from collections.abc import Iterator

from bridge.errors import EngineBroken

# The only three: U+2028, U+0085, \v and \f are text inside a JSON string, so splitlines() and its kin are wrong.
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"
MAX_RECORD = 16 * 1024 * 1024  # bytes; one tool argument in one delta may be a whole file, nothing sane is larger


class Splitter:
    """Incremental. `rest` are the bytes of the record that has not ended."""

    def __init__(self, limit: int = MAX_RECORD) -> None:
        self.rest = b""
        self._limit = limit

    # The records that ended, without their blank line; all to be taken. Raises EngineBroken past the limit.
    def feed(self, chunk: bytes) -> Iterator[bytes]:
        known = self.rest + chunk
        *records, self.rest = known.split(b"\n\n") if b"\r" not in known else _BLANK_LINE.split(known)
        for record in records:
            self._check(len(record))
            yield record
        self._check(len(self.rest) - len(b"\r\n\r"))

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise EngineBroken(f"the engine sent a record of more than {self._limit} bytes")


# Empty where there is none: comments, other fields.
def data_of(record: bytes) -> bytes:
    if record.startswith(b"data: ") and b"\n" not in record and b"\r" not in record:
        return record[6:]
    lines = _LINE_END.split(record.removeprefix(_BOM))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
