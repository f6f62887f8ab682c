"""What must not leave, and what must stay readable."""

from __future__ import annotations

import time
from typing import cast
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.redact import MARK, WITHHELD, Redactor, secret_values

PLAIN = Redactor(())


@pytest.mark.parametrize(
    "line",
    [
        "token hf_SECRETabcdefgh was used",
        "key sk-ant-SECRET_abc-def",
        "rpa_SECRETABCDEFG",
        "Authorization: Bearer SECRET",
        "Authorization: Basic SECRET==",
        "{'authorization': 'Bearer SECRET', 'a': 1}",
        "(b'authorization', b'Bearer SECRET')",
        "'x-api-key': 'SECRET with spaces'",
        "curl -H 'bearer SECRET.abc~x'",
        "OPENAI_API_KEY=SECRET",
        '{"api_key": "SECRET"}',
        "non-default args: {'api_key': ['SECRET']}",
        "'hf_token': 'SECRET'",
        "password=SECRET&x=1",
        "vllm serve x --api-key SECRET --port 1",
        "https://user:SECRET@host/path",
        "https://SECRET@github.com/x",
        "GET /x?token=SECRET&a=1",
    ],
)
def test_what_looks_like_a_secret_goes(line: str) -> None:
    assert "SECRET" not in PLAIN.line(line)
    assert MARK in PLAIN.line(line)


@pytest.mark.parametrize(
    "line",
    [
        "GPU KV cache size: 750,064 tokens",
        "max_num_batched_tokens=4096, num_speculative_tokens: 12",
        "time per output token: 12.5 ms",
        "eos_token_id=151645 tokenizer='./model'",
        "http://127.0.0.1:8000/v1/models and a@b.c",
        "task-risk-skill sk-1",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert PLAIN.line(line) == line


def test_a_url_keeps_its_host() -> None:
    assert PLAIN.line("https://u:p@host/x?token=abc&b=1") == f"https://{MARK}@host/x?token={MARK}&b=1"


@settings(deadline=None)
@given(st.text(min_size=1), st.text(), st.text())
def test_a_known_secret_goes_wherever_it_stands(secret: str, before: str, after: str) -> None:
    secret = "\u2603" + secret  # No line of ours has it by chance.
    for spelling in (secret, quote(secret, safe="", errors="replace")):
        assert spelling not in Redactor([secret]).line(before + spelling + after)


def test_the_longer_of_two_secrets_leaves_nothing_behind() -> None:
    assert Redactor(["abc", "abcdef"]).line("x abcdef y") == f"x {MARK} y"


def test_empty_secrets_are_none() -> None:
    assert Redactor(["", ""]).line("as it is") == "as it is"


def test_when_anything_fails_the_line_stays() -> None:
    class Hostile(str):
        def replace(self, *_: object, **__: object) -> str:
            raise RuntimeError("no")

    assert Redactor(["x"]).line(Hostile("SECRET")) == WITHHELD
    assert PLAIN.line(cast("str", None)) == WITHHELD


def test_a_command_line_hides_the_value_of_a_secret_flag() -> None:
    argv = ("vllm", "--api-key", "SECRET", "--hf-token=SECRET", "--model", "x", "--tokenizer", "y")
    assert PLAIN.argv(argv) == ("vllm", "--api-key", MARK, f"--hf-token={MARK}", "--model", "x", "--tokenizer", "y")


def test_secret_values_are_found_by_name_and_short_ones_are_words() -> None:
    env = {"HF_TOKEN": "hf_12345678", "RUNPOD_API_KEY": "0123456789", "MY_PASSWORD": "short", "PATH": "/usr/bin:/bin"}
    assert secret_values(env) == ("hf_12345678", "0123456789")


@pytest.mark.parametrize("unit", ["a", "a-", "bearer ", "://", "api_key", "a:b@", "http://", "--", "authorization"])
def test_a_hostile_line_costs_time_in_proportion_to_its_length(unit: str) -> None:
    line = (unit * 16_384)[:16_384]
    began = time.process_time()
    PLAIN.line(line)
    assert time.process_time() - began < 1.0
