"""Looks at the outside: one HTTP GET on loopback, one run of a program. An edge; every look has its time limit."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping

from bootstrap import host
from bootstrap.processes import Children
from bootstrap.report import Host

_OUTPUT_LIMIT = 1_000_000


async def get(address: str, port: int, path: str, timeout_s: float) -> str | None:
    """GET over a connection of its own: None when it answers 200, else why not, in a few words."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
                status = (await reader.readline()).split(b" ", 2)
            finally:
                writer.close()
    except TimeoutError:
        return f"no answer in {timeout_s:g} s"
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    if len(status) < 2 or not status[0].startswith(b"HTTP/1."):
        return "not an HTTP answer" if status[0] else "closed without an answer"
    return None if status[1] == b"200" else f"HTTP {status[1].decode(errors='replace')[:10]}"


class CannotRun(Exception):
    """A program gave no output; the text says why."""


async def output(children: Children, argv: tuple[str, ...], env: Mapping[str, str], timeout_s: float) -> str:
    """What a program prints, when it exits with 0. Errors: CannotRun, also after `timeout_s`, when it is killed."""
    chunks: list[bytes] = []
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    finished = asyncio.Event()

    def on_output(data: bytes) -> None:
        if not data:
            finished.set()
        elif sum(map(len, chunks)) < _OUTPUT_LIMIT:
            chunks.append(data)

    def on_exit(_pid: int, description: str) -> None:
        if not ended.done():
            ended.set_result(description)

    try:
        pid = children.spawn(argv, env, on_output, on_exit)
    except OSError as error:
        raise CannotRun(f"{argv[0]}: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(timeout_s):
            description = await ended
            await finished.wait()
    except TimeoutError as error:
        raise CannotRun(f"{argv[0]}: no answer in {timeout_s:g} s") from error
    finally:
        children.kill(pid)
    text = b"".join(chunks).decode(errors="replace")
    if description != "exit code 0":
        raise CannotRun(f"{argv[0]}: {description}: {text.strip()[:200]}")
    return text


class HostWatch:
    """The last thing that nvidia-smi said, refreshed without ever making anyone wait."""

    def __init__(self, children: Children, env: Mapping[str, str]) -> None:
        self.host = Host()
        self._children, self._env = children, env

    async def run(self, every_s: float = 2.0, timeout_s: float = 10.0) -> None:
        """For ever; at once when there is no nvidia-smi, which is a fact and no fault."""
        program = shutil.which("nvidia-smi", path=self._env.get("PATH"))
        if program is None:
            return
        cuda: str | None = None
        while True:
            try:
                if cuda is None:
                    cuda = host.cuda_version(await output(self._children, (program,), self._env, timeout_s))
                rows = await output(self._children, (program, *host.QUERY), self._env, timeout_s)
                self.host = host.parse_query(rows, cuda)
            except CannotRun as error:
                self.host = Host(driver=self.host.driver, cuda=cuda, gpu_error=str(error))
            await asyncio.sleep(every_s)
