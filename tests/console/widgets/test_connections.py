"""The ledger: its words by width, its fields fixed, its leaks marked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.rows import cells, text
from console.widgets.connections import Connections, bridge_age, connections, titled
from control.observe.snapshot import Waiting
from tests.console.snapshots import bridge, engine, healthy, unreachable, wrong_token


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (158, "clients  6 → bridge  6 turns → upstream  6 → engine  3 running +  3 waiting   orphans  0   refused  0   "
              "pings  12   bridge restarts  1"),
        (118, "clients  6 → turns  6 → upstream  6 → engine  3 running +  3 waiting  orphans  0  refused  0  pings  12"
              "  restarts  1"),
        (78, "clients  6 → turns  6 → upstream  6 → engine  3 +  3  orphans  0  refused  0"),
        (58, "clients  6 → turns  6 → upstream  6 → engine  3 +  3"),
    ],
)  # fmt: skip
def test_by_width(width: int, line: str) -> None:
    snap = replace(healthy(), engine=engine(running=3, waiting=Waiting(2, 1)))
    assert text(connections(snap, width)) == line


def test_a_leak_is_marked_where_it_stands() -> None:
    row = connections(replace(healthy(), bridge=bridge(orphans=2, refused=5)), 118)
    assert "▲orphans  2 ▲refused  5" in text(row)
    assert len(text(row)) == len(text(connections(healthy(), 118)))
    assert ("watch", "▲orphans ") in row


def test_what_is_not_known_is_a_dash() -> None:
    assert text(connections(wrong_token(), 78)).startswith("clients  – → turns  – → upstream  – → engine  – +  –")


def test_dashes_have_no_age() -> None:
    silent = replace(wrong_token(), lights=unreachable().lights)
    assert Connections().heading(silent) == "connections"
    assert Connections().heading(unreachable()) == "connections · 42 s old"


def test_age() -> None:
    assert bridge_age(healthy()) is None
    assert bridge_age(unreachable()) == 42.0
    assert titled("log", unreachable()) == "log · 42 s old"
    assert titled("log", healthy()) == "log"


@given(st.integers(58, 200), st.integers(0, 99), st.integers(0, 99))
def test_it_fits_and_holds_its_columns(width: int, clients: int, pings: int) -> None:
    row = connections(replace(healthy(), bridge=bridge(clients=clients, pings=pings)), width)
    usual = connections(healthy(), width)
    assert cells(row) == cells(usual) <= width
    assert text(row).index("engine") == text(usual).index("engine")
