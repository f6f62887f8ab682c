from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge import upstream as module
from bridge.errors import EngineBroken, EngineTimeout, EngineUnreachable, OutputTooLong
from bridge.upstream import NotSent, Upstream, for_report, kernel_count
from tests.bridge.chunks import DATA, text_answer
from tests.bridge.records import samples
from tests.bridge.running import Call, Engine, engine, until, well

pytestmark = pytest.mark.process

REQUEST = {"model": "m", "messages": [], "max_tokens": 32000}


async def mute(call: Call) -> None:
    await call.left()


async def unused(call: Call) -> None:
    raise AssertionError(call.path)


@asynccontextmanager
async def asking(script: Any, look: Any = well) -> AsyncIterator[tuple[Engine, Upstream]]:
    async with engine(script, look) as one, Upstream() as upstream:
        yield one, upstream


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens=32000 cannot be greater than max_model_len=8192. Please request fewer output tokens.",
        "This model's maximum context length is 8192 tokens. However, you requested 32000 output tokens and your prompt"
        " contains at least 50 input tokens",
    ],
)
async def test_when_only_max_tokens_overflows_the_engine_is_asked_for_what_is_left(message: str) -> None:
    async def small(call: Call) -> None:
        if "max_tokens" in call.body:
            await call.answer(400, {"error": {"message": message, "code": 400}})
        else:
            await call.stream(text_answer("x"))

    async with asking(small) as (one, upstream):
        async with upstream.chat(one.url, REQUEST) as answer:
            assert answer.status == 200
        assert len(one.calls) == 2


async def test_it_is_asked_again_once_only() -> None:
    async def never(call: Call) -> None:
        await call.answer(400, {"error": {"message": "max_tokens=1 cannot be greater than max_model_len=0"}})

    async with asking(never) as (one, upstream):
        with pytest.raises(OutputTooLong):
            async with upstream.chat(one.url, REQUEST):
                pass
        assert len(one.calls) == 2


async def closes(call: Call) -> None:
    return


async def resets(call: Call) -> None:
    call.writer.transport.abort()


@pytest.mark.parametrize("script", [closes, resets])
async def test_what_may_have_been_seen_is_told_from_what_was_not_sent(script: Any) -> None:
    async with asking(script) as (one, upstream):
        with pytest.raises(EngineUnreachable) as seen:
            async with upstream.stream(one.url, REQUEST):
                pass
        assert not isinstance(seen.value, NotSent)
        url = one.url
    async with Upstream() as upstream:
        with pytest.raises(NotSent):
            async with upstream.stream(url, REQUEST):
                pass
        probe = await upstream.probe(url)
        assert (probe.reachable, probe.metrics, probe.models) == (False, None, ())
        assert probe.error
        assert (await upstream.probe(None)).error == "the engine has no address yet"


async def test_a_look_at_a_healthy_engine_learns_who_it_is_and_what_it_takes() -> None:
    async with asking(unused) as (one, upstream):
        await upstream.look(one.url)
        probe = await upstream.probe(one.url)
        assert (probe.reachable, probe.error, probe.version) == (True, None, "0.33.0")
        assert (probe.models, probe.max_model_len) == (("m", "alias"), 8192)
        assert "vllm:num_requests_running 1" in (probe.metrics or "")
        assert probe.supports
        assert (probe.supports["native"], probe.supports["tokenize"]) == (False, True)
        assert (probe.suits or "").startswith("translate")
        asked = len(one.questions)
        assert asked
        await upstream.look(one.url)
        assert len(one.questions) == asked


async def test_another_engine_is_asked_anew_and_its_counts_are_its_own() -> None:
    version = ["1"]

    async def changes(call: Call) -> None:
        if call.path == "/version":
            await call.answer(200, {"version": version[0]})
        else:
            await well(call)

    async with asking(lambda call: call.answer(200, {"count": len(version[0])}), changes) as (one, upstream):
        await upstream.look(one.url)
        assert await upstream.count(f"{one.url}/tokenize", REQUEST) == 1
        asked, version[0] = len(one.questions), "22"
        await upstream.look(one.url)
        assert len(one.questions) == 2 * asked
        assert await upstream.count(f"{one.url}/tokenize", REQUEST) == 2


async def test_a_probe_of_a_frozen_engine_is_bounded() -> None:
    async with asking(unused, mute) as (one, upstream):
        async with asyncio.timeout(2.0):
            probe = await upstream.probe(one.url)
        assert not probe.reachable
        assert probe.error == "no answer within 0.8 s"
        assert 0.7 < probe.elapsed_s < 1.5
        await asyncio.wait_for(one.looks[0].gone.wait(), 1.0)


async def test_an_engine_without_a_version_is_known_by_its_models() -> None:
    async def bare(call: Call) -> None:
        await (call.answer(404, {"detail": "Not Found"}) if call.path == "/version" else well(call))

    async with asking(unused, bare) as (one, upstream):
        await upstream.look(one.url)
        assert (upstream.known.version, upstream.known.models) == (None, ("m", "alias"))


async def test_tokens_are_counted_once_for_equal_prompts_and_a_few_at_a_time() -> None:
    busy, most = [0], [0]

    async def counts(call: Call) -> None:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        await asyncio.sleep(0.01)
        busy[0] -= 1
        await call.answer(200, {"count": call.body["n"], "tokens": [1] * 304})

    async with asking(counts) as (one, upstream), asyncio.TaskGroup() as group:
        asked = [group.create_task(upstream.count(f"{one.url}/tokenize", {"n": number % 8})) for number in range(24)]
        await asyncio.wait(asked)
        assert [task.result() for task in asked] == [number % 8 for number in range(24)]
        assert len(one.calls) == 8
        assert most[0] <= module.LANES


@pytest.mark.parametrize("models", [{"data": "x"}, {"data": [{}]}, {"data": [{"id": 1}]}, [], "text", {"data": None}])
async def test_an_engine_that_answers_nonsense_is_an_error_of_ours_and_no_other(models: object) -> None:
    async def odd(call: Call) -> None:
        await (call.answer(200, models) if call.path == "/v1/models" else well(call))

    async with asking(unused, odd) as (one, upstream):
        with pytest.raises(EngineBroken):
            await upstream.look(one.url)


@pytest.mark.parametrize("answer", [{"nothing": 1}, {"count": "many"}, "text"])
async def test_a_count_that_is_none(answer: object) -> None:
    async with asking(lambda call: call.answer(200, answer)) as (one, upstream):
        with pytest.raises(EngineBroken):
            await upstream.count(f"{one.url}/tokenize", {"model": "m"})


async def test_what_is_counted_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COUNTS", 2)
    async with asking(lambda call: call.answer(200, {"count": 1})) as (one, upstream):
        for number in (1, 2, 3, 2, 1):
            await upstream.count(f"{one.url}/tokenize", {"n": number})
        assert [call.body["n"] for call in one.calls] == [1, 2, 3, 1]


async def test_a_time_limit_is_for_all_of_it() -> None:
    async with asking(mute) as (one, upstream):
        with pytest.raises(EngineTimeout):
            async with upstream.stream(one.url, REQUEST, within_s=0.05):
                pass
        await asyncio.wait_for(one.calls[0].gone.wait(), 1.0)


async def test_a_password_in_the_address_reaches_the_engine_and_no_error_names_it() -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server, Upstream() as upstream:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with upstream.chat(f"http://user:pw@{address}/v1/chat/completions", REQUEST):
            pass
        with pytest.raises(EngineBroken) as empty:
            await upstream.count(f"http://user:pw@{address}/tokenize", REQUEST)
        with pytest.raises(EngineUnreachable) as odd:
            await upstream.count("http://user:pw/x@e/tokenize", REQUEST)
    assert "authorization: basic dxnlcjpwdw==" in heads[0]
    assert "pw" not in f"{empty.value} {odd.value}"


@pytest.mark.parametrize("whole", [True, False], ids=["read", "left unread"])
async def test_an_exchange_keeps_no_connection(whole: bool) -> None:
    async with asking(lambda call: call.stream(text_answer("x"))) as (one, upstream):
        async with upstream.chat(one.url, REQUEST) as answer:
            assert kernel_count(one.port) == 1
            body = await (answer.read() if whole else answer.content.readany())
        assert b"data: " in body
        assert await asyncio.wait_for(one.calls[0].reader.read(), 1.0) == b""
        await until(lambda: kernel_count(one.port) == 0)


async def test_a_large_request_arrives_whole_with_its_length() -> None:
    text = "x" * (3 * module.SLICE + 17)
    async with asking(lambda call: call.answer(200, {"count": len(call.body["text"])})) as (one, upstream):
        assert await upstream.count(f"{one.url}/tokenize", {"text": text}) == len(text)


async def test_two_cancels_in_every_phase_leave_no_socket() -> None:
    """There is no pool that a cancelled request could block: see Upstream in bridge/upstream.py."""

    async def ask(one: Engine, upstream: Upstream) -> None:
        async with upstream.stream(one.url, {"text": "x" * 500_000}) as answer:
            await answer.read()

    async def slow(call: Call) -> None:
        await call.head()
        await call.say(b"data: x\n\n")
        await call.left()

    async with asking(slow) as (one, upstream):
        for steps in range(60):
            task = asyncio.ensure_future(ask(one, upstream))  # noqa: TID251 - to be cancelled twice, step by step
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await until(lambda: kernel_count(one.port) == 0)
        one.script = lambda call: call.answer(200, {"count": 3})
        assert await upstream.count(f"{one.url}/tokenize", {"model": "m"}) == 3


async def test_the_kernel_counts_our_sockets_to_the_engine_and_no_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert kernel_count(port) == 0
        with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            assert kernel_count(port) == 2
        assert kernel_count(port) == 0


RECORDED = (DATA / "vllm" / "metrics_capacity.txt").read_text()


def test_a_report_takes_what_the_console_reads_unchanged() -> None:
    kept = for_report(RECORDED)
    names = {line.partition("{")[0].split(" ")[0] for line in kept.splitlines() if not line.startswith("#")}
    assert {"vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:generation_tokens_total"} <= names
    assert "process_start_time_seconds" in names
    assert {name for name in names if name.endswith("_bucket")} == {
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket",
    }
    assert not [name for name in names if name.endswith("_created") or name.startswith(("python_", "http_"))]
    assert "# HELP" not in kept
    assert set(kept.splitlines()) <= set(RECORDED.splitlines())
    assert len(kept) < len(RECORDED) / 2
    before, after = samples(RECORDED), samples(kept)
    assert after.items() <= before.items()


def test_nothing_of_nothing() -> None:
    assert for_report("") == ""
    assert for_report("garbage\n# TYPE\n# TYPE x\n") == ""
