from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from control.local.engine_tokens import IMAGE_TOKENS, Tokens

_message = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "tool"]), "content": st.text()}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | st.text(), "reasoning": st.none() | st.text()}
    ),
)


@given(st.lists(_message, max_size=5), st.lists(_message, max_size=3), st.integers(1, 6), st.booleans())
def test_a_conversation_only_grows_at_its_end(
    messages: list[dict[str, Any]], more: list[dict[str, Any]], width: int, thinking: bool
) -> None:
    tokens = Tokens(width)
    before = tokens.prompt(messages, (), thinking=thinking)
    after = tokens.prompt([*messages, *more], (), thinking=thinking)
    assert len(before) % width == 0
    opening = tokens.prompt([], (), thinking=thinking)
    assert after.startswith(before.removesuffix(opening))


@given(st.text(), st.integers(1, 6))
def test_pieces_are_the_text_and_as_many_as_counted(text: str, width: int) -> None:
    tokens = Tokens(width)
    pieces = list(tokens.pieces(text))
    assert "".join(pieces) == text
    assert len(pieces) == tokens.count(text) == len(tokens.ids(text)) == len(tokens.segment(text)) // width


def test_equal_groups_of_characters_are_equal_ids() -> None:
    tokens = Tokens(4)
    one, two, three = tokens.ids("abcdefghabcd")
    assert one == three != two
    assert tokens.ids(tokens.segment("ab")) == tokens.ids("ab")


def test_arguments_render_the_same_however_a_client_spaces_them() -> None:
    def prompt(arguments: str) -> str:
        call = {"function": {"name": "Read", "arguments": arguments}}
        return Tokens(4).prompt([{"role": "assistant", "content": None, "tool_calls": [call]}], (), thinking=True)

    assert prompt('{"a":1,"b":[2]}') == prompt('{"a": 1,\n "b": [2]}')
    assert prompt("{not json") != prompt("{}")


def test_an_image_takes_the_same_tokens_each_time() -> None:
    tokens = Tokens(4)
    one, other = tokens.image("data:image/png;base64,AAAA"), tokens.image("data:image/png;base64,BBBB")
    assert tokens.count(one) == IMAGE_TOKENS
    assert one == tokens.image("data:image/png;base64,AAAA") != other
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert one in tokens.prompt(
        [{"role": "user", "content": [{"type": "text", "text": "what"}, part]}], (), thinking=True
    )


def test_tools_come_first_so_that_they_are_a_prefix() -> None:
    tools = [{"type": "function", "function": {"name": "Read"}}]
    prompt = Tokens(4).prompt([{"role": "user", "content": "hi"}], tools, thinking=True)
    assert prompt.index("Read") < prompt.index("hi")
