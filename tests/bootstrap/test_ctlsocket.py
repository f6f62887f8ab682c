"""Both ends of the control socket, in one process."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from bootstrap import ctlsocket
from bootstrap.ctlsocket import SocketProblem, ask, bind, serving


def handle(request: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "echo": request, "long": "x" * 300_000}


async def test_request_and_response(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    with bind(path) as bound:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with serving(bound, handle):
            response = await asyncio.to_thread(ask, path, {"cmd": "status"})
    assert response["echo"] == {"cmd": "status"}


@pytest.mark.parametrize("line", [b"no json", b"[1]", b"\xff", b"[" * 20_000])
async def test_what_is_no_request_is_refused_and_the_next_one_is_answered(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "b.sock"
    with bind(path) as bound:
        async with serving(bound, handle):
            reader, writer = await asyncio.open_unix_connection(str(path), limit=1_000_000)
            writer.write(line + b'\n{"cmd":"x"}\n')
            refused, answered = json.loads(await reader.readline()), json.loads(await reader.readline())
            writer.close()
    assert refused["ok"] is False
    assert "JSON" in refused["error"]
    assert answered["echo"] == {"cmd": "x"}


async def test_a_line_without_end_closes_its_connection_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    with bind(path) as bound:
        async with serving(bound, handle):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(b"z" * 200_000)
            assert await reader.read() == b""
            writer.close()
            assert (await asyncio.to_thread(ask, path, {}))["ok"] is True


def test_a_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    bind(path).close()
    assert path.exists()
    bind(path).close()


def test_a_socket_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    with bind(path) as bound:
        bound.listen()
        with pytest.raises(SocketProblem, match="another bootstrap answers"):
            bind(path)
        assert path.exists()


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(SocketProblem, match="it is no socket"):
        bind(path)
    assert path.read_text(encoding="utf-8") == "precious"


def test_a_path_that_the_kernel_would_refuse_is_said(tmp_path: Path) -> None:
    with pytest.raises(SocketProblem, match=f"over {ctlsocket.PATH_LIMIT} bytes; give a shorter --socket"):
        bind(tmp_path / ("x" * 100))


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SocketProblem, match="No such file or directory"):
        bind(tmp_path / "no" / "b.sock")


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(SocketProblem, match="no bootstrap answers"):
        ask(tmp_path / "b.sock", {})


@pytest.mark.parametrize("answer", [b"", b"html\n", b"[1]\n"])
async def test_who_answers_something_else_is_no_bootstrap(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "b.sock"

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(impostor, path):
        with pytest.raises(SocketProblem, match=r"no bootstrap"):
            await asyncio.to_thread(ask, path, {})
