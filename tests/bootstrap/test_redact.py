"""What must not leave, and what must stay readable."""

from __future__ import annotations

import base64
import time
from typing import cast
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.redact import DUMP, MARK, SHORTEST, WITHHELD, Redactor, secret_values

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
        "with OPENAI_API_KEY=SECRET",
        "github_pat_SECRETSECRETSECRET and AKIASECRETSECRET",
        "token eyJSECRETSECRET.SECRETSECRET.SECRET",
        "Set-Cookie: session=SECRET; Path=/",
        "https://cdn.host/x?Expires=1&Signature=SECRET~&Key-Pair-Id=SECRET",
        "https://bucket.host/x?X-Amz-Credential=SECRET%2F1&X-Amz-Signature=SECRET",
        "-----BEGIN RSA PRIVATE KEY-----\\nSECRET\\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY----- SECRET",
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
    said = Redactor(()).line(line)
    assert "SECRET" not in said
    assert MARK in said


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
    for spelling in (
        *(secret, quote(secret, safe="", errors="replace"), quote(secret, errors="replace")),
        quote_plus(secret, errors="replace"),
    ):
        assert spelling not in Redactor([secret]).line(before + spelling + after)


@settings(deadline=None)
@given(st.binary(max_size=9), st.text("abcXYZ012_-", min_size=SHORTEST, max_size=40), st.binary(max_size=9))
def test_a_known_secret_goes_out_of_base64_wherever_it_stands_in_it(before: bytes, secret: str, after: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        line = Redactor([secret]).line("x " + encode(before + secret.encode() + after).decode())
        left = "".join(part for part in line.removeprefix("x ").split(MARK))
        # At most a character at each end, which also holds bits of the neighbours, is left of it.
        assert len(left.rstrip("=")) * 6 <= (len(before) + len(after)) * 8 + 2 * 6


PEM = ["-----BEGIN EC PRIVATE KEY-----", "MHcCAQEEIBSECRETSECRET", "SECRET==", "-----END EC PRIVATE KEY-----"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["engine", "bridge"]), max_size=8), st.integers(0, 3))
def test_a_key_over_many_lines_goes_whatever_another_source_says_meanwhile(turns: list[str], at: int) -> None:
    redactor, said = Redactor(()), []
    for number, line in enumerate(PEM):
        said.append(redactor.line(line, "engine"))
        for source in turns if number == at else ():
            if source == "bridge":
                assert redactor.line("a line of the bridge", source) == "a line of the bridge"
    assert "SECRET" not in "".join(said)
    assert redactor.line("after it", "engine") == "after it"


def test_a_key_that_never_ends_hides_no_more_than_a_key_has() -> None:
    redactor = Redactor(())
    redactor.line(PEM[0])
    hidden = [redactor.line("a line") for _ in range(200)].count(MARK)
    assert 100 < hidden < 150


def test_what_is_learnt_later_ends_no_key_and_forgets_nothing() -> None:
    redactor = Redactor(["older-secret"])
    redactor.line(PEM[0])
    redactor.learn(["a-new-one"])
    assert redactor.line(PEM[1]) == MARK
    redactor.line(PEM[3])
    assert redactor.line("older-secret a-new-one") == f"{MARK} {MARK}"


def test_what_stands_before_and_after_a_key_on_its_line_stays() -> None:
    assert PLAIN.line(f"a {' '.join(PEM)} b {' '.join(PEM)} c") == f"a {MARK} b {MARK} c"


@pytest.mark.parametrize(
    "line",
    [
        "HF_HOME=/workspace/hf",
        'declare -x MY_SETTING="SECRET"',
        "+ export X=SECRET",
        "environ({'PATH': '/bin', 'X': 'SECRET'})",
        "PATH=/bin\0X_Y=SECRET",
        "cat /proc/1/environ",
    ],
)
def test_an_environment_goes_whole(line: str) -> None:
    assert PLAIN.line(line) == DUMP


@settings(deadline=None)
@given(st.text())
def test_any_line_is_answered_by_a_line(text: str) -> None:
    assert isinstance(Redactor(()).line(text), str)


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
    plain = {"TOKENIZERS_PARALLELISM": "falsefalse", "GIT_AUTHOR_NAME": "somebody else", "KEYBOARD": "qwertyqwerty"}
    more = {
        "AWS_SECRET_ACCESS_KEY": "a1234567",
        "DB_DSN": "b1234567",
        "API_TOKENS": "c1234567",
        "PGPASSWORD": "d1234567",
    }
    places = {"PWD": "/workspace", "OLDPWD": "/workspace", "SSH_AUTH_SOCK": "/tmp/agent.1"}
    places |= {"HF_TOKEN_PATH": "/root/token", "DB_PASSWORD_FILE": "/run/secrets/db", "CRED_DIR": "/run/secrets"}
    plain |= places
    assert secret_values({**env, **plain, **more}) == ("hf_12345678", "0123456789", *more.values())


@pytest.mark.parametrize("unit", ["a", "a-", "bearer ", "://", "api_key", "a:b@", "http://", "--", "authorization"])
def test_a_hostile_line_costs_time_in_proportion_to_its_length(unit: str) -> None:
    line = (unit * 16_384)[:16_384]
    began = time.process_time()
    PLAIN.line(line)
    assert time.process_time() - began < 1.0
