"""A file is taken as it was signed, and as nothing else."""

from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from bootstrap.seal import check, sign

tokens = st.text(min_size=1)


def test_the_signature_is_hex_hmac_sha256_of_the_bytes() -> None:
    assert sign(b"serial = 1\n", "secret") == hmac.new(b"secret", b"serial = 1\n", hashlib.sha256).hexdigest()


@given(st.binary(), tokens)
def test_what_was_signed_is_taken_with_a_line_end_or_in_capitals(body: bytes, token: str) -> None:
    for signature in (sign(body, token), sign(body, token) + "\n", sign(body, token).upper()):
        assert check(body, signature, token) is None


@given(st.binary(), st.binary(), tokens, tokens)
def test_another_body_or_another_token_is_refused(body: bytes, other: bytes, token: str, stranger: str) -> None:
    if other != body:
        assert "does not match" in str(check(other, sign(body, token), token))
    if stranger != token:
        assert "does not match" in str(check(body, sign(body, stranger), token))


@given(st.binary(), st.text(), tokens)
def test_any_signature_is_answered(body: bytes, signature: str, token: str) -> None:
    assert check(body, signature, token) is None or signature.strip().lower() != sign(body, token)


def test_what_is_missing_is_said() -> None:
    assert "missing" in str(check(b"", None, "t"))
    assert "missing" in str(check(b"", " \n", "t"))
    assert "no operator token" in str(check(b"", sign(b"", ""), ""))
