"""`passerelle status` in words: the verdict first, dashes for what is not known."""

from __future__ import annotations

from dataclasses import replace

from control.observe.reduce import reduce
from control.observe.state import State
from control.observe.updates import PodSeen
from control.observe.view import snapshot
from control.text import status_lines
from tests.control.observe.reports import POD, metrics, seen, status, turn


def test_nothing_known_is_dashes_and_no_zero() -> None:
    snap, _ = snapshot(State(), 0, 0)
    text = "\n".join(status_lines(snap))
    assert text.startswith("UNKNOWN")
    assert "running –" in text
    assert "so far – $" in text
    assert "provider unknown   port unknown" in text, "no age where there is none"


def test_a_working_pod_in_a_few_lines() -> None:
    state = reduce(State(), PodSeen(POD), 0, 4_600)
    for at, tokens in ((1, 0), (2, 164)):
        update = seen(metrics(generation=tokens), status(), turns=(turn("a3f1"),))
        state = reduce(state, update, at, 4_600 + at)
    snap, _ = snapshot(state, 2, 4_600)
    lines = status_lines(snap)
    assert lines[0].startswith("HEALTHY  pod local-0001 RUNNING  engine serving")
    text = "\n".join(lines)
    assert "0.74 $/h   so far 0.7400 $" in text
    assert "decode 164 tok/s" in text
    assert "a3f1/main" in text
    assert "provider good 2 s   port good 0 s" in text


def test_a_budget_stands_beside_what_was_spent() -> None:
    state = reduce(State(), PodSeen(replace(POD, budget=5.0)), 0, 4_600)
    assert "so far 0.7400 $ of 5.00 $" in "\n".join(status_lines(snapshot(state, 0, 4_600)[0]))
