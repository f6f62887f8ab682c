"""One value at a time."""

from __future__ import annotations

from typing import Any

import pytest

from bootstrap import checks
from bootstrap.checks import Check


@pytest.mark.parametrize(
    ("check", "value", "ours"),
    [
        (checks.text, "a b", "a b"),
        (checks.whole(0), 0, 0),
        (checks.number(0, 1), 1, 1.0),
        (checks.texts, [], ()),
        (checks.names, ["a", "a[1m]"], ("a", "a[1m]")),
        (checks.args, ["--moe-backend", "marlin"], ("--moe-backend", "marlin")),
        (checks.env, {"A": ""}, (("A", ""),)),
        (checks.pairs, {"method": "ngram", "n": 3}, (("method", "ngram"), ("n", 3))),
        (checks.mirror, "dir:///logs", "dir:///logs"),
    ],
)
def test_taken(check: Check, value: Any, ours: Any) -> None:
    assert check(value) == ours


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.text, " "),
        (checks.text, "a\nb"),
        (checks.text, "\x1b[2J"),
        (checks.flag, 1),
        (checks.whole(1), 0),
        (checks.whole(1), True),
        (checks.whole(1), 1.0),
        (checks.number(0, 1), 0),
        (checks.number(0, 1), 1.01),
        (checks.number(0), float("inf")),
        (checks.number(0), True),
        (checks.one_of("a", "b"), ["a"]),
        (checks.texts, "a"),
        (checks.names, ["a", "a"]),
        (checks.names, ["a b"]),
        (checks.names, ["--host"]),
        (checks.args, ["--api-key", "x"]),
        (checks.env, {"1A": "x"}),
        (checks.env, {"A": "\0"}),
        (checks.pairs, {}),
        (checks.pairs, {"a": {}}),
        (checks.mirror, "hf://"),
    ],
)
def test_refused(check: Check, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        check(value)
