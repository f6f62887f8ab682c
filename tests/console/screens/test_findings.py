"""Findings in full, worst first, and every light with its detail."""

from __future__ import annotations

from dataclasses import replace

from console.rows import text
from console.screens.findings import sections
from console.widgets.page import page
from control.observe.snapshot import Snapshot
from tests.console.snapshots import capacity, healthy, unknown, wrong_token


def body(snap: Snapshot) -> str:
    return "\n".join(" ".join(text(row).split()) for row in page(sections(snap), 120))


def test_nothing_is_clipped() -> None:
    shown = body(capacity())
    for finding in capacity().findings:
        for words in (finding.title.upper(), finding.detail, finding.lever, finding.doc):
            assert words in shown
    assert shown.index("WAITING FOR KV CAPACITY") < shown.index("CACHE HITS FELL")


def test_lights_say_when_and_why() -> None:
    assert "■ bridge never good yet: 401: the pod does not take this token" in body(wrong_token())
    assert "○ provider never good yet" in body(unknown())
    assert "● provider last good 2 s ago" in body(healthy())


def test_no_finding_and_a_refused_config() -> None:
    assert "No rule sees a limit" in body(healthy())
    assert "▲ config unknown key at line 3" in body(replace(healthy(), config_error="unknown key at line 3"))
