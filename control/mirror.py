"""The log that a pod writes elsewhere, read back: lines "2026-11-29T17:29:24.123+00:00 engine    INFO …". Pure.

`etat/POD.log` on the Hub, and pod.log on the disk of an embedded pod. It is a tail: its first line may be half of one.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from bootstrap import logline
from bootstrap.report import LogLine

FOLDER = "etat"

_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) (?P<source>[a-z]+) +(?P<text>.*)")


def name_of(pod_id: str) -> str:
    """Where the mirror of that pod is, in its store."""
    return f"{FOLDER}/{pod_id}.log"


def lines(text: bytes) -> tuple[LogLine, ...]:
    """Its lines, numbered from 1. What has no time is left out: a half of a line says who knows what."""
    found = (_line(number, raw) for number, raw in enumerate(text.decode("utf-8", "replace").splitlines(), 1))
    return tuple(line for line in found if line is not None)


def newest(found: tuple[LogLine, ...]) -> float | None:
    """Unix time of the newest line, by the pod's clock."""
    return max((line.at for line in found), default=None)


def _line(number: int, raw: str) -> LogLine | None:
    match = _LINE.fullmatch(raw)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(match["at"]).timestamp()
        level, text = logline.read(match["text"])
        return msgspec.convert(
            {"seq": number, "at": at, "source": match["source"], "level": level, "text": text}, LogLine
        )
    except (ValueError, OverflowError, msgspec.ValidationError):
        return None
