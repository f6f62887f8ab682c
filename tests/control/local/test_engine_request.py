from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.local.engine_errors import ApiError
from control.local.engine_request import Ask, Model, chat, completion, tokenized
from control.local.engine_tokens import Tokens
from tests.control.local.simulated import recorded, recorded_request, scripted

MODEL = Model(("tiny-qwen", "tiny-alias"), 8192, Tokens(4))
VISION = Model(("tiny-qwen",), 8192, Tokens(4), images=1)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


def refusal(body: dict[str, Any], model: Model = MODEL) -> ApiError:
    with pytest.raises(ApiError) as caught:
        chat(body, model)
    return caught.value


@pytest.mark.parametrize(
    "name",
    [
        "err_unknown_model",
        "err_prompt_plus_max_tokens",
        "err_bad_messages",
        "err_bad_temp",
        "err_empty_messages",
        "tool_unknown_named",
        "budget_negative",
        "err_image_on_text_model",
    ],
)
def test_refusals_are_byte_for_byte_those_of_real_vllm(name: str) -> None:
    status, _headers, body = recorded(name)
    error = refusal(recorded_request(name))
    assert (error.status, error.body().decode()) == (status, body.strip())


def test_a_prompt_over_the_window_is_refused_in_vllms_words() -> None:
    error = refusal({"messages": [{"role": "user", "content": "x" * 4 * 8192}]})
    assert error.message == (
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens, "
        "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
        "(parameter=input_tokens, value=8193)"
    )


def test_prompt_and_output_over_the_window_name_both() -> None:
    error = refusal({"messages": [{"role": "user", "content": "x" * 4 * 8000}], "max_tokens": 200})
    assert "you requested 200 output tokens and your prompt contains at least 7993 input tokens" in error.message
    assert (error.status, error.param) == (400, "input_tokens")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"max_tokens": "9"}, "valid integer"),
        ({"n": 2}, "one choice"),
        ({"tool_choice": "maybe"}, "'none', 'auto' or 'required'"),
        ({"tools": "x"}, "valid list"),
        ({"tools": [{}]}, "Field required"),
        ({"stop": 3}, "a string or a list"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"stream_options": []}, "valid dictionary"),
        ({"chat_template_kwargs": 1}, "valid dictionary"),
        ({"messages": [1]}, "a message with a role"),
        ({"messages": [{"role": "user", "content": 5}]}, "a string or parts"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "a string or parts"),
        ({"messages": [{"role": "assistant", "tool_calls": ["x"]}]}, "valid list"),
        ({"messages": [{"role": "user", "content": "[[sim {]]"}]}, "at character 7 of message 0"),
    ],
)
def test_nonsense_is_a_400_that_says_what_is_wrong(change: dict[str, Any], says: str) -> None:
    error = refusal({"messages": [{"role": "user", "content": "hi"}]} | change)
    assert error.status == 400
    assert says in error.message


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = (
    *("messages", "tools", "tool_choice", "max_tokens", "stop", "stream_options"),
    *("chat_template_kwargs", "n", "temperature", "min_tokens", "prompt"),
)


@given(st.dictionaries(st.sampled_from(_KEYS), _json))
def test_any_body_is_either_understood_or_refused(body: dict[str, Any]) -> None:
    for parse in (chat, completion):
        got: Ask | ApiError
        try:
            got = parse(body, MODEL)
        except ApiError as error:
            got = error
        if isinstance(got, ApiError):
            assert got.status in (400, 404)
            assert json.loads(got.body())["error"]["message"]
        else:
            assert 0 < len(got.answer.pieces) <= 8192 - got.prompt_tokens


def test_a_chat_is_rendered_counted_and_answered() -> None:
    body = {
        "model": "tiny-alias",
        "messages": scripted({"thinking": 3, "text": "Hi"}),
        "stream": True,
        "max_tokens": 50,
    }
    ask = chat(body, MODEL)
    assert (ask.model, ask.stream, ask.max_tokens) == ("tiny-alias", True, 50)
    assert ask.prompt_tokens == len(ask.prompt) / 4
    assert [piece.kind for piece in ask.answer.pieces] == ["reasoning"] * 3 + ["silent", "text", "silent"]


def test_thinking_is_off_by_the_template_switch() -> None:
    body = {"messages": scripted({"thinking": 3, "text": "Hi"}), "chat_template_kwargs": {"enable_thinking": False}}
    assert [piece.kind for piece in chat(body, MODEL).answer.pieces] == ["text", "silent"]


def test_images_are_counted_and_bounded() -> None:
    one: dict[str, Any] = {"messages": [{"role": "user", "content": [IMAGE]}]}
    assert chat(one, VISION).prompt_tokens > 1024
    two = {"messages": [{"role": "user", "content": [IMAGE, IMAGE]}]}
    assert refusal(two, VISION).message == "At most 1 image(s) may be provided in one prompt."


def test_a_completion_takes_text_or_ids() -> None:
    assert completion({"prompt": "def f(x):"}, MODEL).prompt_tokens == 3
    assert completion({"prompt": [1, 2, 3, 4]}, MODEL).prompt_tokens == 4
    assert completion({"prompt": [[1, 2]]}, MODEL).prompt_tokens == 2
    assert len(completion({"prompt": "x"}, MODEL).answer.pieces) == 16  # vLLM's default max_tokens
    with pytest.raises(ApiError, match="one prompt"):
        completion({"prompt": ["a", "b"]}, MODEL)


def test_tokenize_counts_what_chat_counts() -> None:
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hello there"}],
        "tools": [{"type": "function", "function": {"name": "Read"}}],
    }
    ids, strings = tokenized(body | {"return_token_strs": True}, MODEL)
    assert strings is not None
    assert len(ids) == len(strings) == chat(body, MODEL).prompt_tokens
    assert tokenized({"prompt": "hello"}, MODEL) == (Tokens(4).ids("hello"), None)
