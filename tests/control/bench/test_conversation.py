"""The conversations of the bench: they grow at their end, in the sizes that were asked for."""

from __future__ import annotations

import copy
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from control.bench.conversation import Conversation, Sizes

SMALL = Sizes(first=2_000, limit=6_000, result=(200, 400), answer=(5, 10))


def size(talk: Conversation) -> int:
    return (len(json.dumps(talk.system)) + len(json.dumps(talk.messages))) // talk.sizes.chars_per_token


def answer(talk: Conversation) -> list[dict[str, object]]:
    """What the simulated engine would answer to the newest marker."""
    found = re.findall(r"\[\[sim (\{.*?\})\]\]", json.dumps(talk.messages[-1]).replace('\\"', '"'))
    turn = json.loads(found[-1])
    said: list[dict[str, object]] = [{"type": "text", "text": "x" * 4 * turn["text"]}]
    calls = enumerate(turn.get("tools", []))
    return said + [{"type": "tool_use", "id": f"t{talk.rounds}-{n}", **call} for n, call in calls]


def test_the_first_prompt_has_its_size() -> None:
    for first in (1_000, 60_000):
        talk = Conversation.begin(1, Sizes(first=first), seed=1)
        assert abs(size(talk) - first) < 0.05 * first + 50


@given(st.integers(0, 5), st.integers(1, 6))
def test_it_only_grows_at_its_end_until_it_begins_anew(seed: int, number: int) -> None:
    talk = Conversation.begin(number, SMALL, seed)
    restarts = 0
    for _ in range(30):
        before = copy.deepcopy(talk.messages)
        talk.answered(answer(talk))
        if len(talk.messages) <= len(before):
            restarts += 1
            assert len(talk.messages) == 1
        else:
            assert talk.messages[: len(before)] == before
        assert size(talk) < 1.3 * SMALL.limit + 1_000
    assert restarts


def test_every_call_is_answered_in_order_and_the_marker_is_in_the_last_result() -> None:
    talk = Conversation.begin(1, SMALL, 1)
    talk.answered(
        [
            {"type": "tool_use", "id": "a", "name": "Read", "input": {}},
            {"type": "tool_use", "id": "b", "name": "Read", "input": {}},
        ]
    )
    results = talk.messages[-1]["content"]
    assert [result["tool_use_id"] for result in results] == ["a", "b"]
    assert "[[sim" not in results[0]["content"]
    assert "[[sim" in results[1]["content"]


def test_agents_share_their_system_prompt_and_nothing_else() -> None:
    one, two = Conversation.begin(1, SMALL, 1), Conversation.begin(2, SMALL, 1)
    assert one.system == two.system
    assert one.messages != two.messages


def test_an_empty_answer_still_makes_a_valid_history() -> None:
    talk = Conversation.begin(1, SMALL, 1)
    talk.answered([])
    assert [message["role"] for message in talk.messages] == ["user", "assistant", "user"]
    assert all(message["content"] for message in talk.messages)
