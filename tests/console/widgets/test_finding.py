"""The worst finding first, its lever under it; and when there is none, what is known instead."""

from __future__ import annotations

from dataclasses import replace

from console.rows import Rows, cells, text
from console.widgets.finding import findings, ranked
from control.observe.snapshot import Verdict
from tests.console.snapshots import capacity, healthy, stopped, unknown, wrong_token


def words(rows: Rows) -> list[str]:
    return [" ".join(text(row).split()) for row in rows]


def test_worst_first_on_two_lines() -> None:
    assert [finding.id for finding in ranked(capacity())] == ["kv-capacity", "cache-miss"]
    assert words(findings(capacity(), 118, 2)) == [
        "▲ WAITING FOR KV CAPACITY 3 of 6 requests wait; KV cache 94 % of 750 k tokens",
        "lever: fewer agents, or context 131 072 → 98 304 +1 more · f explains",
    ]


def test_one_line_leaves_the_lever_to_the_key() -> None:
    (line,) = findings(capacity(), 78, 1)
    assert cells(line) == 78
    assert text(line).endswith("+1 f")
    assert "lever" not in text(line)


def test_without_a_finding() -> None:
    assert words(findings(healthy(), 78, 1)) == ["no limit found"]
    assert "the provider says" in words(findings(stopped(), 78, 1))[0]
    assert words(findings(unknown(), 78, 1)) == ["first look at the pod…"]
    assert words(findings(wrong_token(), 78, 1)) == ["■ BRIDGE 401: the pod does not take this token, never good yet"]
    assert words(findings(replace(healthy(), verdict=Verdict.WARNING), 78, 1)) == ["no finding"]
