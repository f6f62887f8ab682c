from __future__ import annotations

import socket

import pytest

from tests.bridge.test_server import environment, start

pytestmark = pytest.mark.process


async def test_a_bad_environment_is_named_and_exits_64() -> None:
    async with start(environment("http://127.0.0.1:1", PASSERELLE_PING_SECONDS="soon")) as process:
        code, log = await process.ended()
    assert code == 64
    assert log.startswith("error PASSERELLE_PING_SECONDS is 'soon': ")
    assert log.count("\n") == 1


async def test_a_port_that_is_taken_exits_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        async with start(environment("http://127.0.0.1:1", PASSERELLE_PORT=port)) as process:
            code, log = await process.ended()
    assert code == 1
    assert log.startswith("error no socket to serve on: ")
    assert log.count("\n") == 1
