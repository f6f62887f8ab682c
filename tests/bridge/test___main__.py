from __future__ import annotations

import logging
import socket

import httpx
import pytest

from bridge.__main__ import _OneLine
from tests.bridge.chunks import text_answer
from tests.bridge.running import ASK, engine, until_async
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


async def test_alone_in_front_of_an_engine_it_learns_the_models_name_from_it() -> None:
    async with engine(lambda call: call.stream(text_answer("fine"))) as upstream:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        env = {"PATH": environment("")["PATH"]}
        options = ("--listen", address, "--upstream", f"{upstream.url}/v1/", "--insecure-no-auth")
        async with start(env, arguments=options), httpx.AsyncClient(base_url=f"http://{address}") as http:
            await until_async(lambda: serves(http))
            await until_async(lambda: knows(http, "alias"))
            answer = await http.post("/v1/messages", json={**ASK, "model": "claude-anything"})
    assert answer.json()["content"][0]["text"] == "fine"
    assert upstream.calls[0].body["model"] == "m"


async def serves(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/healthz")).status_code == 200
    except httpx.ConnectError:
        return False


async def knows(http: httpx.AsyncClient, name: str) -> bool:
    return name in (await http.get("/v1/models")).text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--listen", "0.0.0.0:1", "--upstream", "http://e", "--insecure-no-auth"), "for loopback only"),
        (("--listen", "127.0.0.1:1", "--upstream", "http://e"), "PASSERELLE_CLIENT_TOKEN is not set"),
        (
            (
                "--listen",
                "127.0.0.1:1",
            ),
            "PASSERELLE_ENGINE_URL is not set",
        ),
        (("--listen", "nowhere", "--upstream", "http://e"), "PASSERELLE_PORT"),
        (("--model", "m", "--model", "", "--upstream", "http://e", "--insecure-no-auth"), "PASSERELLE_MODEL_NAMES"),
        (("--port", "1"), "unrecognized arguments"),
    ],
)
async def test_options_that_make_no_sense_are_named_and_exit_64(options: tuple[str, ...], words: str) -> None:
    async with start({"PATH": environment("")["PATH"]}, arguments=options) as process:
        code, log = await process.ended()
    assert (code, words in log) == (64, True)


def test_a_log_line_is_one_line_and_a_traceback_begins_with_its_cause() -> None:
    def line(message: str, error: BaseException | None = None) -> str:
        info = (type(error), error, error.__traceback__) if error else None
        return _OneLine("%(message)s").format(logging.LogRecord("b", logging.ERROR, "f", 1, message, None, info))

    assert line("one\r\ntwo\n") == "error one | two"
    assert line("") == "error "
    with pytest.raises(ExceptionGroup) as caught:
        raise ExceptionGroup("several", [ValueError("the cause")])
    assert line("it failed", caught.value).startswith("error it failed | ValueError: the cause | ")
