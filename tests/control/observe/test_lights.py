"""The ladder: each rung has its own age, and silence is a sign only while there is work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control.models import PodState
from control.observe.reduce import reduce
from control.observe.snapshot import Light
from control.observe.state import State
from control.observe.updates import PodSeen, ReportLost, Update
from control.observe.view import snapshot
from tests.control.observe.reports import POD, metrics, seen, status


def ladder(updates: list[tuple[float, Update]], at: float) -> dict[str, Light]:
    state = State()
    for now, update in updates:
        state = reduce(state, update, now, 1_000 + now)
    return {light.name: light for light in snapshot(state, at, 1_000 + at)[0].lights}


GOOD: list[tuple[float, Update]] = [(0, PodSeen(POD)), (0, seen(metrics(), status()))]


@pytest.mark.parametrize(("at", "state"), [(1.0, "good"), (5.0, "watch"), (12.0, "bad")])
def test_a_rung_that_is_not_renewed_goes_from_good_to_bad(at: float, state: str) -> None:
    found = ladder(GOOD, at)
    assert found["bridge"].state == state
    assert found["bridge"].age_s == at
    assert found["provider"].state == "good", "the provider is asked less often"


def test_a_wrong_token_leaves_the_port_good_and_the_bridge_bad() -> None:
    found = ladder([(0, PodSeen(POD)), (1, ReportLost("unauthorized", "HTTP 401"))], 1)
    assert found["port"].state == "good"
    assert found["bridge"].state == "bad"
    assert found["bridge"].detail == "HTTP 401"


def test_silence_while_requests_run_goes_from_good_to_bad() -> None:
    silent = seen(metrics(), status())
    for at, state in ((14.0, "good"), (30.0, "watch"), (70.0, "bad")):
        found = ladder([*GOOD, (at, silent)], at)["tokens"]
        assert (found.state, found.age_s) == (state, at)


def test_silence_of_an_idle_engine_is_neither_good_nor_bad() -> None:
    idle = seen(replace(metrics(), running=0), status())
    found = ladder([(0, PodSeen(POD)), (0, idle), (70.0, idle)], 70)["tokens"]
    assert (found.state, found.detail) == ("unknown", "idle")


def test_of_a_stopped_pod_only_the_provider_is_judged() -> None:
    exited = replace(POD, state=PodState.EXITED, started_at=None)
    found = ladder([*GOOD, (5, PodSeen(exited)), (6, ReportLost("port", "refused"))], 60)
    assert {name: light.state for name, light in found.items()} == {
        "provider": "watch",
        "port": "unknown",
        "bridge": "unknown",
        "scrape": "unknown",
        "tokens": "unknown",
    }
