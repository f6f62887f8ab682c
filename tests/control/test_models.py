"""Values that must not show what they hold."""

from __future__ import annotations

from control.models import Target, Tokens


def test_tokens_do_not_show_themselves() -> None:
    tokens = Tokens("secret-a", "secret-b")
    assert "secret" not in repr(tokens)
    assert "secret" not in f"{tokens}"
    assert "secret" not in repr(Target("http://pod", "secret-c"))
