"""Conversations told apart by their messages: each keeps its name while it grows, whoever else talks meanwhile."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from control.fleet import conversations
from control.fleet.conversations import FORGOTTEN_S, Conversation, Conversations

Message = dict[str, Any]


def system(text: str = "You are an agent.") -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def turn(known: Conversations, messages: list[Message], now: float = 0.0) -> Conversation:
    """One turn, begun and ended."""
    found = known.begin({"messages": messages}, now)
    assert found is not None
    known.end(found, now)
    return found


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 1))
def test_a_conversation_that_grows_keeps_its_name_whoever_talks_meanwhile(order: list[int], aside: int) -> None:
    """`aside`: how many of the turns a client drops again, as one that asks for a title does."""
    known = Conversations()
    talks = {number: [system(), user(f"task {number}")] for number in range(6)}
    names: dict[int, str] = {}
    for at, number in enumerate(order):
        found = turn(known, talks[number], float(at))
        assert names.setdefault(number, found.id) == found.id
        for more in range(aside):
            asked = turn(known, [*talks[number], user(f"a title, please {more}")], float(at))
            assert asked.id == found.id
        talks[number] += [said(f"answer {at}"), user(f"result {at}")]
    assert len(set(names.values())) == len(names)


def test_two_that_begin_alike_at_once_are_two_and_stay_so() -> None:
    known, head = Conversations(), [system(), user("take the next task")]
    one, two = known.begin({"messages": head}, 0.0), known.begin({"messages": head}, 0.1)
    assert one is not None
    assert two is not None
    assert one.id != two.id
    known.end(one, 1.0)
    mine = [*head, said("a"), user("b")]
    assert turn(known, mine, 2.0).id == one.id
    known.end(two, 3.0)
    theirs = [*head, said("c"), user("d")]
    assert turn(known, theirs, 4.0).id == two.id
    assert turn(known, [*mine, said("e"), user("f")], 5.0).id == one.id
    assert turn(known, [*theirs, said("g"), user("h")], 6.0).id == two.id


def test_one_that_begins_with_words_that_another_has_left_behind_is_somebody_else() -> None:
    known, head = Conversations(), [system(), user("take the next task")]
    first = turn(known, head)
    assert turn(known, [*head, said("a"), user("b")]).id == first.id
    assert turn(known, head).id != first.id


def test_a_turn_that_is_asked_again_is_the_same() -> None:
    known = Conversations()
    talk = [system(), user("x"), said("y"), user("z")]
    assert turn(known, talk).id == turn(known, talk).id


def test_what_is_asked_aside_while_a_turn_runs_goes_where_its_prefix_is() -> None:
    known = Conversations()
    talk = [system(), user("x")]
    running = known.begin({"messages": talk}, 0.0)
    assert running is not None
    assert turn(known, [*talk, user("aside")]).id == running.id
    known.end(running, 1.0)
    assert turn(known, [*talk, said("y"), user("z")]).id == running.id


def test_a_client_that_changes_its_last_message_is_still_itself() -> None:
    known = Conversations()
    first = turn(known, [system(), user("x"), said("y"), user("z")])
    assert turn(known, [system(), user("x"), said("y"), user("z, and a reminder"), said("u"), user("v")]).id == first.id


def test_a_compacted_conversation_is_a_new_one() -> None:
    known = Conversations()
    first = turn(known, [system(), user("x"), said("y"), user("z")])
    assert turn(known, [system(), user("what was said so far: …")]).id != first.id


def test_what_has_no_messages_has_no_conversation() -> None:
    known = Conversations()
    bodies: list[object] = [{"prompt": "once"}, {"messages": []}, {"messages": "x"}, [], None, 5]
    for body in bodies:
        assert known.begin(body, 0.0) is None


@given(
    st.lists(
        st.recursive(
            st.none() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_whatever_the_messages_are_they_are_somebodys(messages: list[Any]) -> None:
    found = Conversations().begin({"messages": messages}, 0.0)
    assert (found is None) == (not messages)


def test_the_oldest_are_forgotten_and_never_one_at_work(monkeypatch: Any) -> None:
    monkeypatch.setattr(conversations, "MOST", 8)
    known = Conversations()
    working = known.begin({"messages": [user("at work")]}, 0.0)
    assert working is not None
    kept = {number: turn(known, [user(f"{number}")], float(number)).id for number in range(7)}
    late = FORGOTTEN_S + 3.5
    turn(known, [user("one more")], late)
    again = {number: turn(known, [user(f"{number}"), said("a"), user("b")], late).id for number in (4, 5, 6, 0, 1)}
    assert [number for number in again if kept[number] == again[number]] == [4, 5, 6]
    known.end(working, late)
    assert turn(known, [user("at work"), said("a"), user("b")], late).id == working.id
