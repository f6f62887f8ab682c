"""A real vLLM through the bridge in each of its modes, by the official client, and what becomes of it when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import pytest
from anthropic.types import Message

from bridge.tables import TABLES
from tests.real.doors import CLIENT, MODES, Door, door
from tests.real.pods import MODEL, WINDOW, RealPod, at_rest, load, metrics
from tests.real.streams import Stream, ask, hello

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

FIXED: dict[str, Any] = {"extra_body": {"temperature": 0}}
PLAIN: dict[str, Any] = {"thinking": {"type": "disabled"}}
TOOL: dict[str, Any] = {
    "name": "read",
    "description": "Read a file.",
    "strict": True,
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string", "enum": ["a.py", "b.py"]}},
        "required": ["path"],
        "additionalProperties": False,
    },
}
LEAVES_WITHIN_S = 5.0  # a bound, no measure: bench/ says how soon; a turn that nobody ends runs for longer


@pytest.fixture(scope="module")
def doors(pod: RealPod, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    engine_url, logs = asyncio.run(pod.engine_url()), tmp_path_factory.mktemp("doors")
    with ExitStack() as stack:
        yield {mode: stack.enter_context(door(mode, engine_url, logs / f"{mode}.log")) for mode in MODES}


@pytest.fixture(params=MODES)
def through(request: pytest.FixtureRequest, doors: dict[str, Door]) -> Door:
    return doors[request.param]


async def both(one: Door, **asked: Any) -> tuple[Message, Message]:
    """The same request answered in one piece, then as a stream."""
    asked = {"model": MODEL, **asked}
    async with one.client() as client:
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            return whole, await stream.get_final_message()


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def prompt_tokens(message: Message) -> int:
    """The whole prompt: vLLM counts what it wrote to its cache apart, in an answer in one piece."""
    usage = message.usage
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def text_of(message: Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


async def test_an_answer_is_the_same_in_one_piece_and_as_a_stream(through: Door) -> None:
    whole, streamed = await both(through, model="claude-tiny", max_tokens=40, messages=said("Hi."), **PLAIN, **FIXED)
    assert text_of(whole) == text_of(streamed) != ""
    for message in (whole, streamed):
        assert [block.type for block in message.content] == ["text"]
        assert (message.role, message.stop_reason, message.usage.output_tokens) == ("assistant", "max_tokens", 40)
    if through.mode == "translate":
        assert all(re.fullmatch(r"msg_[0-9a-f]{24}", message.id) for message in (whole, streamed))


async def test_cached_tokens_are_apart_and_the_sum_is_what_is_counted(through: Door) -> None:
    """The cache has blocks of 128 tokens, and the second request finds what the first left there."""
    asked = said(f"A prompt for {through.mode} alone. " + "It goes on and on. " * 60)
    async with through.client() as client:
        counted = await client.messages.count_tokens(model=MODEL, messages=asked, **PLAIN)  # type: ignore[arg-type]
    first, again = await both(through, max_tokens=2, messages=asked, **PLAIN)
    assert first.usage.cache_read_input_tokens == 0
    assert again.usage.cache_read_input_tokens == counted.input_tokens // 128 * 128 > 0
    assert prompt_tokens(first) == prompt_tokens(again) == counted.input_tokens
    if through.mode != "off":  # which reads nothing
        seen = [turn.input_tokens for turn in through.report().finished[:2]]
        assert seen == [counted.input_tokens, counted.input_tokens]


CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Read a.py."}, {"type": "text", "text": "Then b.py."}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "First the one.", "signature": "c2ln"},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "print(1)"}]},
    {"role": "system", "content": "Remember the second one."},
]


async def test_count_tokens_counts_what_the_turn_then_has(through: Door) -> None:
    asked: dict[str, Any] = {"model": MODEL, "system": "Be brief.", "tools": [TOOL], "messages": CONVERSATION, **PLAIN}
    async with through.client() as client:
        counted = await client.messages.count_tokens(**asked)
        message = await client.messages.create(max_tokens=1, **asked)
    assert prompt_tokens(message) == counted.input_tokens


async def test_a_forced_tool_is_called_and_its_result_is_answered(through: Door) -> None:
    asked: dict[str, Any] = {"max_tokens": 2000, "tools": [TOOL], "messages": said("Read something."), **PLAIN}
    for choice in ({"type": "tool", "name": "read"}, {"type": "any", "disable_parallel_tool_use": True}):
        for message in await both(through, tool_choice=choice, **asked):
            (call,) = message.content
            assert call.type == "tool_use"
            assert (call.name, message.stop_reason) == ("read", "tool_use")
            assert call.input in ({"path": "a.py"}, {"path": "b.py"})
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "print(1)"}
    answered = [
        *asked["messages"],
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [result]},
    ]
    for message in await both(through, max_tokens=8, tools=[TOOL], messages=answered, **PLAIN):
        assert message.usage.output_tokens > 0


async def test_thinking_ends_at_its_budget_and_goes_back_into_the_history(through: Door) -> None:
    """vLLM holds a budget where the thinking has begun in the prompt. Its least one is 1024; the bridge takes less."""
    budget = 16 if through.mode == "translate" else 1024
    asked: dict[str, Any] = {"max_tokens": budget + 40, "messages": said("<think>"), **FIXED}
    limited = await both(through, thinking={"type": "enabled", "budget_tokens": budget}, **asked)
    for message in limited:
        assert [block.type for block in message.content] == ["thinking", "text"]
        assert message.content[0].type == "thinking"
        assert message.content[0].signature
        assert message.stop_reason == "max_tokens"
    assert text_of(limited[0]) == text_of(limited[1])
    async with through.client() as client:
        again: Any = [*said("<think>"), {"role": "assistant", "content": limited[1].content}, *said("And?")]
        message = await client.messages.create(model=MODEL, max_tokens=1, messages=again, **PLAIN)
    assert prompt_tokens(message) > prompt_tokens(limited[1]) + 30


async def test_a_stop_sequence_is_named_and_not_said(through: Door) -> None:
    asked: dict[str, Any] = {"max_tokens": 40, "messages": said("Write a word."), **PLAIN, **FIXED}
    unbounded, _ = await both(through, **asked)
    words = [word for word in text_of(unbounded).split() if len(word) > 3]
    for message in await both(through, stop_sequences=["not-there", words[1]], **asked):
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", words[1])
        assert text_of(message) == text_of(unbounded).partition(words[1])[0]


async def test_an_overflow_is_worded_so_that_claude_code_compacts(through: Door) -> None:
    """`off` does not reword: the engine's own sentence."""
    ours = rf"prompt is too long: \d+ tokens > {WINDOW} maximum"
    words = "maximum context length is 8192 tokens" if through.mode == "off" else ours
    async with through.client() as client:
        asked: Any = {"model": MODEL, "max_tokens": 10, "messages": said("the quick brown fox " * 4000)}
        with pytest.raises(anthropic.BadRequestError, match=words) as in_one_piece:
            await client.messages.create(**asked)
        with pytest.raises(anthropic.BadRequestError, match=words):
            async with client.messages.stream(**asked) as stream:
                await stream.get_final_message()
    if through.mode != "off":
        assert isinstance(in_one_piece.value.body, dict)
        assert in_one_piece.value.body["error"]["type"] == "invalid_request_error"


async def test_max_tokens_beyond_the_window_are_cut_to_what_fits(through: Door) -> None:
    asked: Any = {"model": MODEL, "max_tokens": WINDOW - 1, "messages": said("abcd " * 2600), **PLAIN, **FIXED}
    async with through.client() as client, client.messages.stream(**asked) as stream:
        message = await stream.get_final_message()
    assert prompt_tokens(message) + message.usage.output_tokens == WINDOW
    assert message.stop_reason == ("model_context_window_exceeded" if through.mode == "translate" else "max_tokens")


def test_explain_says_what_this_engine_takes(pod: RealPod, doors: dict[str, Door]) -> None:
    done = pod.passerelle("bridge", "explain", "--url", asyncio.run(pod.engine_url()), "--json")
    assert done.returncode == 0, done.stderr
    engine = json.loads(done.stdout)["engine"]
    assert (engine["models"][0], engine["max_model_len"]) == (MODEL, WINDOW)
    taken = {feature for feature, takes in engine["supports"].items() if takes}
    assert TABLES["probes"].keys() - {"plain"} - taken == {"image"}, "a model that reads text only"
    assert engine["suits"].startswith("translate")
    for mode, one in doors.items():
        assert (one.report().mode, one.report().engine.supports) == (mode, engine["supports"])
    assert "mode     translate" in pod.passerelle("bridge", "explain", pod.pod_id).stdout


PHASES: dict[str, tuple[int, dict[str, Any], Callable[[tuple[int, int]], bool]]] = {
    "waiting": (8, hello("abcd " * 2200), lambda now: now[1] > 0 and sum(now) == 8),
    "prefilling": (1, hello("abcd " * 2600), lambda now: now[0] > 0),
    "decoding": (6, hello(), lambda now: now[0] > 0 and sum(now) >= 6),
    "in one piece": (6, hello() | {"stream": False}, lambda now: now[0] > 0 and sum(now) >= 6),
}


@pytest.mark.parametrize("phase", PHASES)
async def test_a_client_that_leaves_frees_the_engine(phase: str, through: Door, pod: RealPod) -> None:
    """In whichever phase. What it had to wait for is another prompt each time, so that no cache helps."""
    clients, body, reached = PHASES[phase]
    engine_url, gone = await pod.engine_url(), through.report().totals["client_gone"]
    async with asyncio.TaskGroup() as tasks:
        asking = [
            tasks.create_task(ask(through.url, CLIENT, **body, system=f"{through.mode} {phase} {number}"))
            for number in range(clients)
        ]
        async with asyncio.timeout(60):  # a machine that does other work as well takes its time to look
            while not reached(await load(engine_url)) and not all(one.done() for one in asking):
                pass
        if all(one.done() for one in asking):
            pytest.skip("the answers were over before anybody looked: nobody left in this phase")
        for one in asking:
            one.cancel()
    await at_rest(engine_url, LEAVES_WITHIN_S)
    await until(lambda: through.report().totals["client_gone"] == gone + clients)
    left = through.report()
    assert (left.connections.upstreams, left.connections.orphans, left.turns) == (0, 0, ())
    computed = (await metrics(engine_url)).counters.generation
    await asyncio.sleep(0.2)
    assert (await metrics(engine_url)).counters.generation == computed, "nothing is computed for nobody"


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]], within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while True:
            holds = condition()
            if (await holds) if isinstance(holds, Awaitable) else holds:
                return
            await asyncio.sleep(0.05)


async def test_a_killed_engine_ends_each_stream_once_and_the_next_turn_waits_for_its_return(
    pod: RealPod, doors: dict[str, Door]
) -> None:
    """Through each mode alone, and through the pod, which starts it again; last here, as it gets another port."""
    restarts = (await pod.supervisor()).engine.restarts
    places = {mode: (one.url, CLIENT) for mode, one in doors.items()} | {"pod": (pod.url, pod.client_token)}
    streams = {name: Stream() for name in places}
    core = await asyncio.to_thread(pod.engine_core)
    async with asyncio.TaskGroup() as tasks:
        for name, (url, token) in places.items():
            tasks.create_task(ask(url, token, streams[name], **hello(f"For {name}.", max_tokens=7000)))
        await until(lambda: all("content_block_delta" in stream.kinds for stream in streams.values()))
        core.kill()
    killed = time.monotonic()
    for name, stream in streams.items():
        assert stream.terminal == ["error"], (name, stream.events[-3:])
        assert stream.kinds[-1] == "error", name
    assert streams["translate"].kinds[-2] == "content_block_stop", (
        "an open block would make Claude Code ask for no stream"
    )

    held, states = Stream(500), list[str]()

    async def persist() -> None:
        """As Claude Code does: until its process ends, half a second later, vLLM answers 500, or hangs up."""
        while held.status >= 500:
            await ask(pod.url, pod.client_token, held, **hello(max_tokens=20))

    async with asyncio.TaskGroup() as tasks:
        answering = tasks.create_task(persist())
        await until(lambda: held.kinds.count("ping") >= 2, 30)
        while not answering.done():
            snap = await asyncio.to_thread(pod.passerelle, "status", pod.pod_id, "--json", "--seconds", "0.5")
            with contextlib.suppress(json.JSONDecodeError):
                states.append(json.loads(snap.stdout)["engine"]["state"])
            assert time.monotonic() < killed + 200, states
    assert held.whole, held
    assert held.events[-2]["usage"]["output_tokens"] == 20
    assert set(states) & {"starting", "loading", "backoff"}, states
    now = await pod.supervisor()
    assert (now.engine.state, now.engine.restarts) == ("serving", restarts + 1)
