"""One GET on loopback, one run of a program."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bootstrap.probes import CannotRun, HostWatch, get, output
from bootstrap.processes import Children
from bootstrap.report import Host
from bootstrap.startup import free_port
from tests.bootstrap.deadline import until

DATA = Path(__file__).parents[1] / "data" / "bootstrap"


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[int]:
    """A server that reads a request and sends this, or stays silent."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        if answer is None:
            await over.wait()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "HTTP 503"),
        (b"SSH-2.0-x\r\n", "not an HTTP answer"),
        (b"", "closed without an answer"),
        (None, "no answer in 0.05 s"),
    ],
)
async def test_get(answer: bytes | None, reason: str | None) -> None:
    async with answering(answer) as port:
        assert await get("127.0.0.1", port, "/health", 0.05 if answer is None else 5.0) == reason


async def test_get_where_nobody_listens() -> None:
    reason = await get("127.0.0.1", free_port(), "/health", 5.0)
    assert reason is not None
    assert "refused" in reason.lower() or "connect" in reason.lower()


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    loop = asyncio.get_running_loop()
    children = Children(loop)
    loop.add_signal_handler(signal.SIGCHLD, children.reap)
    yield children
    loop.remove_signal_handler(signal.SIGCHLD)


@pytest.mark.process
async def test_output_is_what_a_program_prints(children: Children) -> None:
    assert await output(children, (sys.executable, "-c", "print('hello')"), dict(os.environ), 30.0) == "hello\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("argv", "limit", "says"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no driver')"), 30.0, "exit code 1: no driver"),
        ((sys.executable, "-c", "import time; time.sleep(600)"), 0.2, "no answer in 0.2 s"),
        (("/no/such/program",), 30.0, "No such file or directory"),
    ],
)
async def test_output_that_never_comes(children: Children, argv: tuple[str, ...], limit: float, says: str) -> None:
    with pytest.raises(CannotRun, match=says):
        await output(children, argv, dict(os.environ), limit)


async def test_no_nvidia_smi_is_a_fact(children: Children, tmp_path: Path) -> None:
    watch = HostWatch(children, {"PATH": str(tmp_path)})
    await watch.run()
    assert watch.host == Host()


@pytest.mark.process
async def test_nvidia_smi_as_recorded_then_as_it_fails(children: Children, tmp_path: Path) -> None:
    smi, failing = tmp_path / "nvidia-smi", tmp_path / "failing"
    smi.write_text(
        f'#!/bin/sh\n[ -e {failing} ] && echo "GPU is lost" && exit 9\n'
        f'case "$1" in --query*) cat {DATA}/nvidia-smi-h200-query.csv;; *) cat {DATA}/nvidia-smi-h200.txt;; esac\n',
        encoding="utf-8",
    )
    smi.chmod(0o755)
    watch = HostWatch(children, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run(every_s=0.01))
        await until(lambda: watch.host.gpus)
        assert (watch.host.cuda, watch.host.driver, watch.host.gpus[0].name) == ("13.0", "580.159.04", "NVIDIA H200")
        failing.touch()
        await until(lambda: watch.host.gpu_error)
        assert watch.host.gpu_error == f"{smi}: exit code 9: GPU is lost"
        assert (watch.host.driver, watch.host.gpus) == ("580.159.04", ())
        task.cancel()
