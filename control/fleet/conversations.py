"""Which conversation a request belongs to, told from its messages alone. Pure.

The bridge does not pass its client's session on, and what matters to the engine's cache is not the session but the
prefix. A conversation's head, its first messages up to the user's first, stays the same while it grows, and changes
when it is compacted, that is when its prefix is lost anyway. Two that begin with the same words (agents that are all
told the same) are told apart by their being at work at once, and by what came after.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

FORGOTTEN_S = 3600.0
"""Without a turn for so long, a conversation is forgotten: its blocks have left the cache long since."""

MOST = 10_000

MARKS = 4
"""Turns of a conversation that are remembered: a client may ask something aside from one of the last."""


@dataclass(slots=True)
class Conversation:
    id: str
    marks: tuple[bytes, ...]
    """Digests of all that was said up to its last turns, newest last."""
    seen_at: float
    live: int = 0
    """Its turns that are being answered."""

    def reach(self, said: Mapping[bytes, int], whole: bytes) -> tuple[int, bool]:
        """How many of a request's messages are known as this conversation's, 0 for none; and whether it stood there.

        What was asked before, word for word, is asked again when that has ended; else somebody else has the same words.
        """
        again = self.marks[-1:] == (whole,) and not self.live
        known = [mark for mark in self.marks if mark in said and (mark != whole or again)]
        longest = max(known, key=lambda mark: said[mark], default=None)
        return (0, False) if longest is None else (said[longest], longest == self.marks[-1])


class Conversations:
    """All that are known. `begin` and `end` are called around each turn."""

    def __init__(self) -> None:
        self._by_head: dict[bytes, list[Conversation]] = {}
        self._made = 0
        self._count = 0

    def begin(self, body: object, now: float) -> Conversation | None:
        """The conversation of that request's body; None for one that has no messages."""
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(messages, list) or not messages:
            return None
        digests = list(_digests(messages))
        head = digests[_head(messages) - 1]
        found = self._find(head, digests) or self._new(head, now)
        found.marks = (*(mark for mark in found.marks if mark != digests[-1]), digests[-1])[-MARKS:]
        found.seen_at = now
        found.live += 1
        return found

    def end(self, conversation: Conversation, now: float) -> None:
        conversation.live -= 1
        conversation.seen_at = now

    def _find(self, head: bytes, digests: list[bytes]) -> Conversation | None:
        known, said = self._by_head.get(head, []), {digest: at for at, digest in enumerate(digests, 1)}
        reached = [(*one.reach(said, digests[-1]), not one.live, -one.seen_at) for one in known]
        # Of two that began alike and have not gone on, the one that has waited longest is the likelier to ask now.
        best = max(range(len(known)), key=reached.__getitem__, default=None)
        if best is not None and reached[best][0]:
            return known[best]
        # A client that changes its last message, or goes back a few, is still the one that it was, if nobody else is.
        alone = len(known) == 1 and not known[0].live and digests[-1] != head
        return known[0] if alone else None

    def _new(self, head: bytes, now: float) -> Conversation:
        if self._count >= MOST:
            self._forget(now)
        self._made += 1
        made = Conversation(f"{head.hex()[:12]}-{self._made}", (), now)
        self._by_head.setdefault(head, []).append(made)
        self._count += 1
        return made

    def _forget(self, now: float) -> None:
        """Those that are over; where none is, the older half of those that are not at work."""
        everyone = sorted((one for same in self._by_head.values() for one in same), key=lambda one: one.seen_at)
        over = [one for one in everyone if not one.live and now - one.seen_at > FORGOTTEN_S]
        gone = {one.id for one in over or [one for one in everyone if not one.live][: MOST // 2]}
        left = {head: [one for one in same if one.id not in gone] for head, same in self._by_head.items()}
        self._by_head = {head: same for head, same in left.items() if same}
        self._count = sum(map(len, self._by_head.values()))


def _head(messages: list[Any]) -> int:
    """How many messages the head has."""
    users = (at for at, one in enumerate(messages) if isinstance(one, dict) and one.get("role") == "user")
    return next(users, len(messages) - 1) + 1


def _digests(messages: list[Any]) -> Iterator[bytes]:
    """Of the first, of the first two, and so on."""
    running = hashlib.sha256()
    for message in messages:
        running.update(msgspec.json.encode(message) + b"\n")
        yield running.digest()
