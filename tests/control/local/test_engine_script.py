from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.local.engine_script import DONE, Call, ScriptError, Turn, filler, scripted, unscripted

_turns = st.fixed_dictionaries(
    {},
    optional={
        "thinking": st.integers(0, 500) | st.text(st.characters(exclude_categories=["Cs"])),
        "text": st.integers(0, 500) | st.text(st.characters(exclude_categories=["Cs"])),
        "tools": st.lists(
            st.fixed_dictionaries(
                {"name": st.text(min_size=1)}, optional={"input": st.dictionaries(st.text(), st.integers())}
            ),
            max_size=3,
        ),
    },
)


def marker(value: object) -> str:
    return f"[[sim {json.dumps(value)}]]"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


SAID = {"role": "assistant", "content": "…"}


@given(_turns)
def test_every_turn_object_is_read_as_it_was_written(value: dict[str, Any]) -> None:
    turn = scripted([user(f"before {marker(value)} after")])
    assert turn is not None
    assert turn.thinking == value.get("thinking", 0)
    assert turn.text == value.get("text", 0)
    assert [(call.name, json.loads(call.arguments)) for call in turn.tools] == [
        (tool["name"], tool.get("input", {})) for tool in value.get("tools", [])
    ]


@given(st.text(), st.text())
def test_text_around_a_marker_changes_nothing(before: str, after: str) -> None:
    if "[[sim" in before + after:
        return
    assert scripted([user(before + marker({"text": 7}) + after)]) == Turn(text=7)


@given(st.text())
def test_no_text_crashes_the_reader(text: str) -> None:
    got: Turn | ScriptError | None
    try:
        got = scripted([user(f"[[sim {text}")])
    except ScriptError as error:
        got = error
    assert got is None or isinstance(got, Turn) or "message 0" in str(got)


def test_the_last_marker_rules_and_an_array_is_one_turn_after_another() -> None:
    script = marker([{"text": "one"}, {"text": "two"}])
    history = [user(marker({"text": "old"})), SAID, user(script)]
    assert scripted(history) == Turn(text="one")
    assert scripted([*history, SAID, {"role": "tool", "content": "result"}]) == Turn(text="two")
    assert scripted([*history, SAID, user("…"), SAID, user("…")]) == DONE


def test_a_marker_in_a_tool_result_rules_and_one_in_an_assistant_message_does_not() -> None:
    said = {"role": "assistant", "content": marker({"text": "no"})}
    tool = {"role": "tool", "content": [{"type": "text", "text": marker({"text": "yes"})}]}
    assert scripted([user("hi"), said]) is None
    assert scripted([user("hi"), said, tool]) == Turn(text="yes")


def test_a_marker_inside_a_tool_input_is_for_the_one_who_gets_that_input() -> None:
    inner = marker({"text": "from the sub-agent"})
    outer = {"tools": [{"name": "Task", "input": {"prompt": inner}}]}
    turn = scripted([user(marker(outer))])
    assert turn == Turn(tools=(Call("Task", json.dumps({"prompt": inner})),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ab [[sim {]]", "at character 10 of message 0"),
        ("[[sim {} ", "Expecting ']]' at character 8 of message 0"),
        ("[[sim nonsense]]", "Expecting value at character 6 of message 0"),
        ("[[sim 3]]", "a turn must be an object, not int: message 0, marker at character 6"),
        ('[[sim {"texts": 3}]]', "unknown key 'texts'"),
        ('[[sim {"text": -1}]]', "text must be a string or a whole number"),
        ('[[sim {"text": true}]]', "text must be a string or a whole number"),
        ('[[sim {"tools": {}}]]', "tools must be an array"),
        ('[[sim {"tools": [{}]}]]', "a tool call must be an object with a name"),
    ],
)
def test_a_malformed_marker_says_what_and_where(text: str, says: str) -> None:
    with pytest.raises(ScriptError) as caught:
        scripted([user(text)])
    assert says in str(caught.value)


def test_a_good_marker_after_a_broken_one_rules() -> None:
    assert scripted([user("[[sim {]] [[sim {}]]")]) == Turn()


@given(st.integers(0, 400), st.integers(-5, 5))
def test_filler_is_as_long_as_asked_and_the_same_for_the_same_prompt_and_seed(length: int, seed: int) -> None:
    text = filler("prompt", seed, length)
    assert len(text) == length
    assert text == text.strip()
    assert text == filler("prompt", seed, length)


def test_without_a_marker_the_turn_follows_from_prompt_and_seed() -> None:
    turns = {unscripted(prompt, seed) for prompt in ("a", "b", "c", "d") for seed in (0, 1)}
    assert len(turns) > 1
    assert all(turn.thinking == 24 and isinstance(turn.text, int) and 90 <= turn.text <= 150 for turn in turns)
    assert unscripted("a", 0) == unscripted("a", 0)
