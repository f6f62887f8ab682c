from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from control.local.engine_answer import Answer, Sampling, compose
from control.local.engine_script import Call, Turn
from control.local.engine_tokens import Tokens

TOKENS = Tokens(4)
READ = Call("Read", '{"path": "a"}')
SCHEMAS = {"Read": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}, "Ls": {}}
ROOM = Sampling(max_tokens=1000)


def answer(turn: Turn, sampling: Sampling = ROOM) -> Answer:
    return compose(turn, sampling, TOKENS, "prompt", 0)


def said(answer: Answer, kind: str) -> str:
    return "".join(piece.text for piece in answer.pieces if piece.kind == kind)


def count(answer: Answer, kind: str) -> int:
    return sum(1 for piece in answer.pieces if piece.kind == kind)


def called(answer: Answer) -> list[tuple[str, object]]:
    indexes = sorted({piece.call for piece in answer.pieces if piece.kind == "tool"})
    mine = [[piece for piece in answer.pieces if piece.call == index] for index in indexes]
    return [
        (
            "".join(piece.text for piece in pieces if piece.kind == "tool"),
            json.loads("".join(piece.text for piece in pieces if piece.kind == "arguments")),
        )
        for pieces in mine
    ]


def test_numbers_are_tokens_and_strings_are_literal() -> None:
    got = answer(Turn(thinking=40, text="Hello there"))
    assert (count(got, "reasoning"), said(got, "text"), got.finish) == (40, "Hello there", "stop")


def test_thinking_off_leaves_the_thought_out() -> None:
    got = answer(Turn(thinking=40, text=5), replace(ROOM, thinking=False))
    assert (count(got, "reasoning"), count(got, "text")) == (0, 5)


def test_a_thinking_budget_cuts_the_thought_and_the_answer_goes_on() -> None:
    got = answer(Turn(thinking=40, text="Hi"), replace(ROOM, thinking_budget=7))
    assert (count(got, "reasoning"), said(got, "text"), got.finish) == (7, "Hi", "stop")


@given(st.integers(1, 60), st.integers(0, 30), st.integers(0, 30))
def test_max_tokens_is_never_passed_and_says_length(most: int, thinking: int, text: int) -> None:
    got = answer(Turn(thinking=thinking, text=text), Sampling(max_tokens=most))
    whole = thinking + 1 + text + 1
    assert len(got.pieces) == min(most, whole)
    assert got.finish == ("length" if whole > most else "stop")


def test_ignore_eos_fills_max_tokens_and_min_tokens_lengthens() -> None:
    endless = answer(Turn(text=3), Sampling(max_tokens=50, ignore_eos=True))
    assert (len(endless.pieces), endless.finish) == (50, "length")
    longer = answer(Turn(text=3), Sampling(max_tokens=50, min_tokens=20))
    assert (len(longer.pieces), longer.finish) == (21, "stop")


def test_parallel_calls_come_in_order_after_the_text() -> None:
    turn = Turn(text="both", tools=(READ, Call("Ls", "{}")))
    got = answer(turn, replace(ROOM, tools=SCHEMAS))
    assert called(got) == [("Read", {"path": "a"}), ("Ls", {})]
    assert (said(got, "text"), got.finish) == ("both", "tool_calls")
    single = answer(turn, replace(ROOM, tools=SCHEMAS, parallel=False))
    assert called(single) == [("Read", {"path": "a"})]


def test_tool_choice_is_honoured() -> None:
    turn = Turn(thinking=2, text="words", tools=())
    required = answer(turn, replace(ROOM, tools=SCHEMAS, choice="required"))
    assert (called(required), said(required, "text"), required.finish) == ([("Read", {"path": "x"})], "", "tool_calls")
    named = answer(turn, replace(ROOM, tools=SCHEMAS, choice="named:Ls"))
    # vLLM was recorded to say "stop" when the tool was named.
    assert (called(named), named.finish) == ([("Ls", {})], "stop")
    own = answer(Turn(tools=(READ,)), replace(ROOM, tools=SCHEMAS, choice="named:Read"))
    assert called(own) == [("Read", {"path": "a"})]
    none = answer(Turn(text="t", tools=(READ,)), replace(ROOM, tools=SCHEMAS, choice="none"))
    assert (called(none), none.finish) == ([], "stop")


def test_a_call_without_tools_in_the_request_is_only_text() -> None:
    got = answer(Turn(tools=(READ,)))
    assert said(got, "text") == '<tool_call>\n{"name": "Read", "arguments": {"path": "a"}}\n</tool_call>'
    assert got.finish == "stop"


@given(st.text("abc", min_size=1, max_size=40), st.lists(st.text("abc", min_size=1, max_size=3), max_size=3))
def test_a_stop_sequence_ends_the_text_before_it(text: str, stops: list[str]) -> None:
    got = answer(Turn(text=text), replace(ROOM, thinking=False, stop=tuple(stops)))
    found = [(text.find(stop) + len(stop), text.find(stop), stop) for stop in stops if stop in text]
    if not found:
        assert (said(got, "text"), got.stop_reason) == (text, None)
        return
    end = min(found)[0]
    assert got.finish == "stop"
    assert got.stop_reason in [stop for at, _begin, stop in found if at == end]
    assert said(got, "text") == text[: end - len(got.stop_reason or "")]
    assert len(got.pieces) == -(-end // 4)
    kept = answer(Turn(text=text), replace(ROOM, thinking=False, stop=tuple(stops), include_stop=True))
    assert said(kept, "text") == text[:end]


def test_what_is_generated_is_what_the_next_prompt_says_was_generated() -> None:
    turn = Turn(thinking="Let me see", text="Reading it.", tools=(READ,))
    got = answer(turn, replace(ROOM, tools=SCHEMAS))
    question: dict[str, object] = {"role": "user", "content": "hi"}
    call = {"function": {"name": "Read", "arguments": '{"path":"a"}'}}
    reply = {"role": "assistant", "content": "Reading it.", "reasoning": "Let me see", "tool_calls": [call]}
    prompt = TOKENS.prompt([question], (), thinking=True)
    following = TOKENS.prompt([question, reply], (), thinking=True)
    assert following.startswith(prompt + got.raw(TOKENS))
