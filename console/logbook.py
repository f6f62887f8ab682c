"""The pod's log as this screen has seen it: each snapshot holds the last lines, the book keeps them all. Pure."""

from __future__ import annotations

from bootstrap.report import LogLine

CAPACITY = 5000
"""Lines kept; about 1 MB of text."""

Book = tuple[LogLine, ...]


def merge(book: Book, lines: Book) -> Book:
    """The book with what is new in `lines`, oldest first; the same object when nothing is.

    `seq` starts anew with the supervisor, so a last line of a lower seq and a later time is a new life of the pod:
    all of its lines are new.
    """
    if not lines:
        return book
    if not book:
        return lines[-CAPACITY:]
    last, newest = book[-1], lines[-1]
    if newest.seq < last.seq and newest.at > last.at:
        return (*book, *lines)[-CAPACITY:]
    fresh = tuple(line for line in lines if line.seq > last.seq)
    return (*book, *fresh)[-CAPACITY:] if fresh else book


def matching(book: Book, needle: str) -> Book:
    """The lines whose text, source or level holds `needle`, whatever the case."""
    wanted = needle.casefold()
    if not wanted:
        return book
    return tuple(line for line in book if wanted in f"{line.source} {line.level} {line.text}".casefold())
