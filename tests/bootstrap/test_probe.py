"""One exchange with a local service, and what its metrics say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.errors import Problem
from bootstrap.launches import free_port
from bootstrap.probe import NOTHING, ask, figures
from tests.bootstrap.answering import answering

SERIES = Path(__file__).parents[1] / "data"


async def test_a_200_gives_its_body() -> None:
    async with answering(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nhello\r\n\r\nthere") as (port, asked):
        assert await ask(f"http://127.0.0.1:{port}/sleep?level=1", 5.0, "POST") == b"hello\r\n\r\nthere"
    assert asked == [b"POST /sleep?level=1 HTTP/1.0\r\n"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "/health: answers 'HTTP/1.1 503 Service Unavailable'"),
        (b"SSH-2.0-x\r\n", "/health: answers 'SSH-2.0-x'"),
        (b"", "/health: answers ''"),
        (None, "/health: no answer in 0.05 s"),
    ],
)
async def test_anything_else_is_a_problem_in_a_few_words(answer: bytes | None, reason: str) -> None:
    async with answering(answer) as (port, _):
        with pytest.raises(Problem) as caught:
            await ask(f"http://127.0.0.1:{port}/health", 0.05 if answer is None else 5.0)
    assert str(caught.value) == reason


async def test_where_nobody_listens() -> None:
    with pytest.raises(Problem, match=r"/health: .*(refused|[Cc]onnect)"):
        await ask(f"http://127.0.0.1:{free_port()}/health", 5.0)


def test_figures_are_summed_over_engines_and_nothing_else_is_read() -> None:
    text = (
        b"# HELP vllm:num_requests_running Number of requests\n"
        b'vllm:num_requests_running{engine="0",model_name="m"} 2.0\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} 1.0\n'
        b'vllm:num_requests_waiting{engine="0",model_name="m"} 4\n'
        b'vllm:generation_tokens_total{engine="0"} 1.5e+06\n'
        b'vllm:prompt_tokens_total{engine="0"} 10.0\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        b"vllm:generation_tokens_created 99\n"
        b"process_start_time_seconds 1.0\n"
    )
    seen = figures(text)
    assert (seen.requests, seen.progress) == (7.0, (1.5e6, 0.25, 10.0))
    assert figures(b"<html>") == NOTHING
