from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.bridge.chunks import DONE, chunk, events, terminals, text_answer
from tests.bridge.running import ASK, CLIENT, OPERATOR, Call, engine, until

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def environment(engine_url: str, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PASSERELLE_ENGINE_URL": engine_url,
        "PASSERELLE_CLIENT_TOKEN": CLIENT,
        "PASSERELLE_OPERATOR_TOKEN": OPERATOR,
        "PASSERELLE_MODEL_NAMES": '["m"]',
        **more,
    }


@dataclass
class Process:
    child: asyncio.subprocess.Process

    async def ended(self, within_s: float = 10.0) -> tuple[int, str]:
        """Exit code and standard error."""
        async with asyncio.timeout(within_s):
            _, err = await self.child.communicate()
        assert self.child.returncode is not None
        return self.child.returncode, err.decode()


@asynccontextmanager
async def start(
    env: dict[str, str], fds: tuple[int, ...] = (), arguments: tuple[str, ...] = ()
) -> AsyncIterator[Process]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "bridge", *arguments),
        cwd=ROOT,
        env={**env, "PYTHONPATH": str(ROOT)},
        pass_fds=fds,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Process(child)
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.communicate()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[socket.socket, httpx.AsyncClient]]:
    """A bound, listening socket as the supervisor makes it, and a client of it."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, headers={"x-api-key": CLIENT}, timeout=20) as http:
            yield sock, http


async def test_sigterm_finishes_the_streams_in_flight_and_exits_0() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(call: Call) -> None:
        await call.head()
        await call.say(chunk({"content": "before "}))
        asked.set()
        await go_on.wait()
        await call.say(chunk({"content": "after"}) + chunk(finish="stop") + DONE)
        await call.end()

    async with engine(slow) as upstream, listening() as (sock, http):
        env = environment(upstream.url, PASSERELLE_LISTEN_FD=str(sock.fileno()))
        async with start(env, (sock.fileno(),)) as process, asyncio.TaskGroup() as group:
            asking = group.create_task(http.post("/v1/messages", json={**ASK, "stream": True}))
            await asyncio.wait_for(asked.wait(), 10)
            process.child.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.8)
            assert process.child.returncode is None
            go_on.set()
            answer = await asking
            assert b"after" in answer.content
            assert terminals(answer.content) == 1
            code, log = await process.ended()
    assert code == 0
    assert all(line.split(" ")[0] in ("info", "warning", "error") for line in log.splitlines())
    assert CLIENT not in log
    assert OPERATOR not in log


async def test_a_second_sigterm_ends_now_with_one_event_each() -> None:
    async def endless(call: Call) -> None:
        await call.head()
        await call.say(chunk({"content": "x"}))
        await call.left()

    async with engine(endless) as upstream, listening() as (sock, http):
        env = environment(upstream.url, PASSERELLE_LISTEN_FD=str(sock.fileno()))
        async with start(env, (sock.fileno(),)) as process, asyncio.TaskGroup() as group:
            asking = group.create_task(http.post("/v1/messages", json={**ASK, "stream": True}))
            await until(lambda: bool(upstream.calls), within_s=10)
            await asyncio.sleep(0.1)
            process.child.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            process.child.send_signal(signal.SIGTERM)
            answer = await asking
            code, _ = await process.ended(5)
    assert code == 0
    assert terminals(answer.content) == 1
    assert events(answer.content)[-1][1]["error"]["type"] == "overloaded_error"


async def test_the_drain_is_bounded() -> None:
    async def endless(call: Call) -> None:
        await call.head()
        await call.say(chunk({"content": "x"}))
        await call.left()

    async with engine(endless) as upstream, listening() as (sock, http):
        limits = {"PASSERELLE_LISTEN_FD": str(sock.fileno()), "PASSERELLE_DRAIN_SECONDS": "0.5"}
        async with start(environment(upstream.url, **limits), (sock.fileno(),)) as process:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(http.post("/v1/messages", json={**ASK, "stream": True}))
                await until(lambda: bool(upstream.calls), within_s=10)
                process.child.send_signal(signal.SIGTERM)
            code, _ = await process.ended(5)
    assert code == 0
    assert terminals(asking.result().content) == 1


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
async def test_a_new_bridge_on_the_same_socket_loses_no_request(connection: str) -> None:
    """Requests go on all through the handover, on new connections or on kept ones; each is answered in full."""

    async def brief(call: Call) -> None:
        await call.head()
        await call.say(chunk({"content": "a"}))
        await asyncio.sleep(0.05)
        await call.say(text_answer("b"))
        await call.end()

    async with engine(brief) as upstream, listening() as (sock, http):
        env = environment(upstream.url, PASSERELLE_LISTEN_FD=str(sock.fileno()))
        done = asyncio.Event()
        answers: list[httpx.Response] = []

        async def agent() -> None:
            while not done.is_set():
                headers = {"connection": connection}
                answers.append(await http.post("/v1/messages", json={**ASK, "stream": True}, headers=headers))

        async with start(env, (sock.fileno(),)) as old:
            await http.get("/healthz")
            async with start(env, (sock.fileno(),)) as new, asyncio.TaskGroup() as group:
                for _ in range(6):
                    group.create_task(agent())
                await until(lambda: len(answers) > 20, within_s=20)
                old.child.send_signal(signal.SIGTERM)
                code, _ = await old.ended()
                seen = len(answers)
                await until(lambda: len(answers) > seen + 20, within_s=20)
                done.set()
                assert new.child.returncode is None
    assert code == 0
    assert {answer.status_code for answer in answers} == {200}
    assert all(events(answer.content)[-1][0] == "message_stop" for answer in answers)


async def test_connections_wait_while_no_bridge_runs() -> None:
    """kill -9 loses what was in flight and nothing else: the supervisor's socket queues the rest."""
    async with engine(lambda call: call.stream(text_answer("x"))) as upstream, listening() as (sock, http):
        env = environment(upstream.url, PASSERELLE_LISTEN_FD=str(sock.fileno()))
        async with start(env, (sock.fileno(),)) as first:
            await http.get("/healthz")
            first.child.kill()
            await first.child.communicate()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(http.post("/v1/messages", json=ASK, headers={"connection": "close"}))
            async with start(env, (sock.fileno(),)):
                answer = await waiting
    assert json.loads(answer.content)["content"] == [{"type": "text", "text": "x"}]


async def test_sigusr1_says_where_it_stands_and_it_goes_on() -> None:
    async with engine(lambda call: call.stream(text_answer("x"))) as upstream, listening() as (sock, http):
        env = environment(upstream.url, PASSERELLE_LISTEN_FD=str(sock.fileno()))
        async with start(env, (sock.fileno(),)) as process:
            await http.get("/healthz")
            process.child.send_signal(signal.SIGUSR1)
            assert (await http.post("/v1/messages", json=ASK)).status_code == 200
            process.child.send_signal(signal.SIGTERM)
            code, log = await process.ended()
    assert code == 0
    assert "most recent call first" in log
    assert "bridge/server.py" in log
