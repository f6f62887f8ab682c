"""`passerelle bridge explain`, for a bare engine and for a pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from control.cli import run
from tests.bridge.running import engine
from tests.bridge.test_upstream import unused

pytestmark = pytest.mark.process


@contextmanager
def an_engine() -> Iterator[str]:
    """In a thread of its own: the verb runs a loop of its own."""
    url: list[str] = []
    ready, done = Event(), Event()

    async def serve() -> None:
        async with engine(unused) as one:
            url.append(one.url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(5)
    try:
        yield url[0]
    finally:
        done.set()
        thread.join(5)


def test_a_bare_engine_is_asked_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    with an_engine() as url:
        assert run(["bridge", "explain", "--url", f"{url}/v1/"], None) == 0
        out = capsys.readouterr().out
        assert "version 0.33.0, window 8,192 tokens, models m, alias" in out
        assert "suits    translate: " in out
        assert "refuses  native" in out
        assert "takes    tokenize" in out
        assert run(["bridge", "explain", "--url", url, "--json"], None) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["engine"]["supports"]["native"] is False
    assert said["mode"] is None


def test_an_engine_that_is_not_there_is_unreachable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bridge", "explain", "--url", "http://127.0.0.1:1"], None) == 3
    assert "http://127.0.0.1:1: the engine does not answer" in capsys.readouterr().err
    assert run(["bridge", "explain", "pod-1", "--url", "http://127.0.0.1:1"], None) == 64
