"""The supervisor's socket on this machine, and everything else that may be at its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from control import supervisor
from control.errors import Refused, Unreachable
from control.supervisor import ask
from tests.control.sshd import bootstrap_socket


async def test_a_question_and_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "s"
    answers = {"status": '{"ok":true,"status":{}}', "swap": '{"ok":false,"error":"no model q"}'}
    async with bootstrap_socket(path, answers):
        assert await ask(path, {"cmd": "status"}) == {"ok": True, "status": {}}
        with pytest.raises(Refused, match="no model q"):
            await ask(path, {"cmd": "swap", "model": "q"})
        with pytest.raises(Unreachable, match="answered nothing"):
            await ask(path, {"cmd": "keep"})


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no supervisor answers"):
        await ask(tmp_path / "none", {"cmd": "status"})
    (tmp_path / "file").touch()
    with pytest.raises(Unreachable, match="Connection refused"):
        await ask(tmp_path / "file", {"cmd": "status"})


async def test_one_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(supervisor, "ASK_S", 0.1)
    gone = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        await gone.wait()
        writer.close()

    async with await asyncio.start_unix_server(mute, tmp_path / "s"):
        with pytest.raises(Unreachable, match="did not answer within"):
            await ask(tmp_path / "s", {"cmd": "status"})
        gone.set()


async def test_one_that_never_ends_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_LINE", 1_000)
    async with bootstrap_socket(tmp_path / "s", {"status": "x" * 5_000}):
        with pytest.raises(Unreachable):
            await ask(tmp_path / "s", {"cmd": "status"})
