"""What is told of a service."""

from __future__ import annotations

from dataclasses import replace

from bootstrap.service import BRIDGE, Draining, Service, view

BASE = Service("bridge", BRIDGE, phase="serving", since=10.0, pid=7, restarts=2, draining=(Draining(3, 99.0),))


def test_view_counts_and_ages() -> None:
    seen = view(BASE, ("python", "-m", "bridge"), now=12.5)
    assert (seen.state, seen.pid, seen.since_s, seen.restarts, seen.draining) == ("serving", 7, 2.5, 2, 1)
    assert (seen.next_start_s, seen.last_exit, seen.command) == (None, None, ("python", "-m", "bridge"))


def test_only_backoff_has_a_next_start_and_it_is_never_in_the_past() -> None:
    waiting = replace(BASE, phase="backoff", pid=None, deadline=20.0)
    assert view(waiting, (), now=12.0).next_start_s == 8.0
    assert view(waiting, (), now=21.0).next_start_s == 0.0
    assert view(replace(BASE, deadline=20.0), (), now=12.0).next_start_s is None
