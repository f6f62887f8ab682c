"""What was learnt of a pod's work while somebody watched: idle time and tokens. HOME/pods/ID/work.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from control.cost import Tokens, Work, grown
from control.models import PodId
from control.observe.scrape import EngineMetrics
from control.store import Folders, write_whole

FILE = "work.json"
WRITE_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Entry:
    """`total` grows over restarts of the engine; `last` is its counters when they were last read."""

    work: Work = field(default_factory=Work)
    total: Tokens = field(default_factory=lambda: Tokens(0.0, 0.0, 0.0, 0.0))
    last: Tokens | None = None
    since: float | None = None
    """Unix time from which `total` counts."""


def see(entry: Entry, busy: bool, tokens: Tokens | None, now: float) -> Entry:
    """One look more. The first counters are of work before it, so they count for nothing."""
    entry = replace(entry, work=entry.work.see(busy, now))
    if tokens is None:
        return entry
    if entry.last is None:
        return replace(entry, last=tokens, since=now)
    more = grown(entry.last, tokens)
    total = Tokens(
        entry.total.prompt + more.prompt,
        entry.total.generation + more.generation,
        _sum(entry.total.prefill_s, more.prefill_s),
        _sum(entry.total.decode_s, more.decode_s),
    )
    return replace(entry, last=tokens, total=total)


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def tokens_of(metrics: EngineMetrics) -> Tokens | None:
    """The counters of one scrape; None when the engine has none of them."""
    counters = metrics.counters
    if counters.generation is None:
        return None
    prompt = (counters.prompt_computed or 0.0) + (counters.prompt_cached or 0.0)
    return Tokens(prompt, counters.generation, counters.prefill_s, counters.decode_s)


class Ledger:
    """One pod's entry, written now and then: a crash loses seconds of it, a full disk the rest."""

    def __init__(self, home: Path, pod_id: PodId) -> None:
        self._path = Folders(home).folder(pod_id) / FILE
        self.entry = self._load()
        self._written_at = 0.0
        self._can_write = True

    def see(self, busy: bool, tokens: Tokens | None, now: float) -> None:
        self.entry = see(self.entry, busy, tokens, now)
        if self._can_write and now - self._written_at >= WRITE_EVERY_S and self._path.parent.is_dir():
            self._written_at = now
            try:
                write_whole(self._path, msgspec.json.encode(self.entry), 0o644)
            except OSError:
                self._can_write = False

    def _load(self) -> Entry:
        """What cannot be read is begun anew: it is a record of work, not of money."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Entry)
        except (OSError, msgspec.DecodeError):
            return Entry()
