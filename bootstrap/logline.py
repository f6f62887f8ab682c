"""One raw line of a child's output -> what is kept of it: clean text, level, bounded length. Pure."""

# vLLM writes `(EngineCore pid=1) INFO 11-29 12:54:32 [core.py:114] text`, uvicorn in it `(APIServer pid=1) INFO: text`;
# the bridge begins its lines with the level's word, in small letters.

import re

from bootstrap.report import Level

RAW_LIMIT = 16_384  # characters of a raw line that are looked at; what comes after is dropped
TEXT_LIMIT = 2000  # characters of a line that are told to others
PROGRESS_EVERY_S = 1.0  # a progress bar rewrites its line many times a second; one in so long is kept
WITHHELD_LONG = "[line withheld: too long to be redacted safely]"

_HELD = 4 * RAW_LIMIT + 4  # bytes: more than RAW_LIMIT characters, however they are encoded
_LINE_END = re.compile(rb"(\r\n|\n|\r)")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_PREFIX = re.compile(
    r"(?:\(\w{1,40} pid=\d+\) ?)?"
    r"(?:(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|debug|info|warning|error|critical)[: ] *"
    r"(?:\d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,80}\] ?)?)?"
)
_LEVELS: dict[str, Level] = {"debug": "debug", "info": "info", "warn": "warning", "warning": "warning"}
_ANSWERED = re.compile(r'"(?:GET|POST|HEAD) /\S* HTTP/1\.[01]" 200\b')
_SOUNDS_WRONG = re.compile(
    r"Traceback \(most recent call last\)|(?:[\w.]{1,120}\.)?\w{0,60}(?:Error|Exception)\b:|\w+: error: "
)


def clean(raw: str) -> str:
    """Without escape sequences and control characters, which could drive the reader's terminal, and not too long."""
    text = "".join(char if char.isprintable() else " " for char in _ESCAPE.sub("", raw[: RAW_LIMIT + 1])).rstrip()
    if len(raw) <= RAW_LIMIT:
        return text
    kept = text.rpartition(" ")[0]  # the last word was cut: half a secret would pass the redactor
    return f"{kept} …" if kept else WITHHELD_LONG


def read(text: str) -> tuple[Level, str]:
    """Level and readable text of a clean line. A line without a level is info, unless it reads like an exception."""
    prefix = _PREFIX.match(text)
    word, rest = (prefix[1], bound(text[prefix.end() :].rstrip())) if prefix else (None, bound(text))
    if word is None:
        return "error" if _SOUNDS_WRONG.match(rest) else "info", rest
    return _LEVELS.get(word.lower(), "error"), rest


def is_noise(text: str) -> bool:
    """Blank, or an access-log line of a request that went well: several a second, which the bridge counts anyway."""
    return not text.strip() or bool(_ANSWERED.search(text))


def bound(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


class Splitter:
    """Bytes of one pipe -> raw lines, with bounded memory. Ends of line are LF, CR LF, and the CR of progress bars."""

    def __init__(self) -> None:
        self._rest = b""
        self._last_progress = float("-inf")

    def feed(self, data: bytes, now: float) -> list[str]:
        """The lines that these bytes end, without what is over the limit; b"" is the end of the pipe."""
        pieces = _LINE_END.split(self._rest + data)
        self._rest = pieces.pop()[:_HELD] if data else b""
        lines = []
        for raw, end in zip(pieces[::2], [*pieces[1::2], b""], strict=False):
            if end == b"\r":
                if now - self._last_progress < PROGRESS_EVERY_S:
                    continue
                self._last_progress = now
            lines.append(raw[:_HELD].decode(errors="replace"))
        return list(filter(None, lines))
