"""Both ends of the control socket, in one process."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bootstrap.ctlsocket import Message, Tell, ask, refuse_if_answered, serving
from bootstrap.errors import Problem, Unreachable


async def handle(request: Message) -> Message:
    if request.get("cmd") is None:
        raise Problem("there must be a cmd")
    return {"echo": request, "long": "x" * 300_000}


async def watch(told: AsyncIterator[Message], tell: Tell) -> None:
    await tell({"state": "serving"})
    async for message in told:
        await tell({"heard": message})


async def test_request_and_response(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    async with serving(path, handle, watch):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        response = await asyncio.to_thread(ask, path, {"cmd": "status"})
    assert (response["ok"], response["echo"]) == (True, {"cmd": "status"})
    assert not path.exists()


async def test_a_refusal_is_the_askers_problem(tmp_path: Path) -> None:
    async with serving(tmp_path / "b.sock", handle, watch):
        with pytest.raises(Problem, match="there must be a cmd"):
            await asyncio.to_thread(ask, tmp_path / "b.sock", {})


@pytest.mark.parametrize("line", [b"no json", b"[1]", b"\xff", b"[" * 20_000])
async def test_what_is_no_request_is_refused_and_the_next_one_is_answered(tmp_path: Path, line: bytes) -> None:
    async with serving(tmp_path / "b.sock", handle, watch):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "b.sock"), limit=1_000_000)
        writer.write(line + b'\n{"cmd":"x"}\n')
        refused, answered = json.loads(await reader.readline()), json.loads(await reader.readline())
        writer.close()
    assert refused["ok"] is False
    assert refused["error"] == "there must be a cmd"
    assert answered["echo"] == {"cmd": "x"}


async def test_a_watcher_is_told_and_may_answer(tmp_path: Path) -> None:
    async with serving(tmp_path / "b.sock", handle, watch):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "b.sock"))
        writer.write(b'{"cmd":"watch"}\n{"live":3}\n')
        assert json.loads(await reader.readline()) == {"state": "serving"}
        assert json.loads(await reader.readline()) == {"heard": {"live": 3}}
        writer.close()


async def test_a_line_without_end_closes_its_connection_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    async with serving(path, handle, watch):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"z" * 200_000)
        assert await reader.read() == b""
        writer.close()
        assert (await asyncio.to_thread(ask, path, {"cmd": "x"}))["ok"] is True


async def test_a_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    refuse_if_answered(path)
    async with serving(path, handle, watch):
        assert (await asyncio.to_thread(ask, path, {"cmd": "x"}))["ok"] is True


async def test_a_socket_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    async with serving(path, handle, watch):
        with pytest.raises(Problem, match="another bootstrap answers"):
            await asyncio.to_thread(refuse_if_answered, path)
        assert path.exists()


async def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(Problem, match=r"b.sock.*in use"):
        await anext(aiter(served(path)))
    assert path.read_text(encoding="utf-8") == "precious"


async def served(path: Path) -> AsyncIterator[None]:
    async with serving(path, handle, watch):
        yield


@pytest.mark.parametrize(("name", "says"), [("x" * 100, "path too long"), ("taken/b.sock", "File exists")])
async def test_a_path_that_cannot_be_is_said(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(Problem, match=f"give another --socket.*{says}"):
        await anext(aiter(served(tmp_path / name)))


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no bootstrap answers"):
        ask(tmp_path / "b.sock", {})


@pytest.mark.parametrize("answer", [b"", b"html\n", b"[1]\n", b"{}\n"])
async def test_who_answers_something_else_is_no_bootstrap(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "b.sock"

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(impostor, path):
        with pytest.raises(Unreachable, match=r"no bootstrap"):
            await asyncio.to_thread(ask, path, {})
