"""What a keeper works with, in tests: children that live in a list, a clock that is set, a journal on tmp_path."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from bootstrap.errors import Problem
from bootstrap.keeper import Shop
from bootstrap.logtap import Journal
from bootstrap.processes import Children, OnExit, OnOutput
from bootstrap.redact import Redactor


class FakeChildren(Children):
    """`done`: what was done to whom; `outputs` and `exits`: how to speak and end as one of them."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.spawned: list[tuple[tuple[str, ...], Mapping[str, str], int | None]] = []
        self.exits: dict[int, OnExit] = {}
        self.outputs: dict[int, OnOutput] = {}
        self.descendants: dict[int, frozenset[str]] = {}
        self.missing = False

    def spawn(
        self, argv: tuple[str, ...], env: Mapping[str, str], on_output: OnOutput, on_exit: OnExit, fd: int | None = None
    ) -> int:
        if self.missing:
            raise Problem("cannot start it: No such file or directory")
        pid = 100 + len(self.exits)
        self.spawned.append((argv, env, fd))
        self.exits[pid], self.outputs[pid] = on_exit, on_output
        self.done.append(("spawn", pid))
        return pid

    async def run(self, argv: tuple[str, ...], env: Mapping[str, str], limit_s: float) -> str:
        raise Problem(f"{argv[0]}: not asked in tests")

    def signal(self, pid: int, number: signal.Signals) -> None:
        self.done.append((number.name, pid))

    def look(self) -> None:
        pass

    def names(self, pid: int) -> frozenset[str]:
        return self.descendants.get(pid, frozenset())

    def end(self, pid: int, how: str) -> None:
        self.exits[pid](pid, how)


class Bench:
    """A shop with its parts at hand."""

    def __init__(self, folder: Path, tasks: asyncio.TaskGroup) -> None:
        self.now, self.children = 0.0, FakeChildren()
        self.journal = Journal(folder / "logs", Redactor(()), lambda: 0.0)
        self.shop = Shop(self.children, self.journal, tasks, lambda: self.now)

    def said(self) -> list[tuple[str, str]]:
        return [(line.level, line.text) for line in self.journal.since(0)[0]]


class _Over(Exception):
    pass


@contextlib.asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    """Every task of its keepers ends with the block."""
    try:
        async with asyncio.TaskGroup() as tasks:
            it = Bench(folder, tasks)
            with contextlib.closing(it.journal):
                yield it
            raise _Over
    except* _Over:
        pass
