"""A program on a pseudo-terminal: type to it, read what it draws, see what it costs (Linux: /proc)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

TICK = os.sysconf("SC_CLK_TCK")


class Terminal:
    """`argv` at `columns` x `rows`. Ended by SIGKILL when the block is left, if it still runs."""

    def __init__(self, argv: list[str], env: dict[str, str], columns: int = 120, rows: int = 40) -> None:
        self.began = time.monotonic()
        self.drawn = bytearray()
        self._ended: int | None = None
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, os.environ | env | {"TERM": "xterm-256color", "COLORTERM": "truecolor"})
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._file)

    def type(self, keys: str) -> None:
        os.write(self._file, keys.encode())

    def read_for(self, seconds: float) -> None:
        """Keep up with what it draws."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._read(left)

    def read_until(self, text: str, within: float) -> float:
        """Seconds from the program's start until `text` was drawn; raises TimeoutError."""
        until = time.monotonic() + within
        while text.encode() not in self.drawn:
            if time.monotonic() > until:
                raise TimeoutError(f"{text!r} was not drawn within {within} s: {bytes(self.drawn[-400:])!r}")
            self._read(until - time.monotonic())
        return time.monotonic() - self.began

    def exit_code(self, within: float) -> int:
        """Read to the end of what it draws; its exit code (negative: the signal that ended it)."""
        until = time.monotonic() + within
        with contextlib.suppress(EOFError):
            while (left := until - time.monotonic()) > 0:
                self._read(left)
        self._ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._ended

    def _read(self, seconds: float) -> None:
        if select.select([self._file], [], [], max(0.0, seconds))[0]:
            try:
                self.drawn += os.read(self._file, 65536)
            except OSError as error:
                raise EOFError("the program ended") from error

    def cpu_s(self) -> float:
        """User and system time so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def rss_mb(self) -> float:
        line = next(x for x in Path(f"/proc/{self.pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
        return int(line.split()[1]) / 1000
