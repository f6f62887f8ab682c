"""How long starts took: learnt per provider, only the last ones, forgotten when they cannot be read."""

from __future__ import annotations

from pathlib import Path

from control.durations import KEPT, Durations


def test_durations_are_learnt_and_only_the_last_ones(tmp_path: Path) -> None:
    rented = Durations(tmp_path, "runpod")
    assert rented.known() == {}
    for number in range(KEPT + 3):
        rented.learn("image", float(number))
    rented.learn("bridge", 2.5)
    assert rented.known() == {"image": tuple(float(n) for n in range(3, KEPT + 3)), "bridge": (2.5,)}
    assert Durations(tmp_path, "local").known() == {}, "an embedded engine says nothing of a rented one"
    (tmp_path / "phases.json").write_text("{")
    assert rented.known() == {}
