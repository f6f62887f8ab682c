"""What the verbs of a fleet do when they cannot: no fleet is half made, and what fails says what to do."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from control.errors import PasserelleError, Refused, Unreachable, UsageError
from control.fleet import life
from control.fleet.store import Fleets
from control.models import PodId

NONE = PodId("local-none")


@pytest.fixture
def fleets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleets:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return Fleets(tmp_path)


def test_a_fleet_is_made_with_tokens_of_its_own(fleets: Fleets) -> None:
    one, two = life.make(fleets, None, "127.0.0.1", None), life.make(fleets, "night", "127.0.0.1", None)
    assert set(fleets.names()) == {one.name, "night"}
    assert fleets.load("night") == two
    tokens = fleets.tokens("night")
    assert len({tokens.client, tokens.operator, fleets.tokens(one.name).client}) == 3
    with pytest.raises(UsageError, match="there is a fleet night already"):
        life.make(fleets, "night", "127.0.0.1", None)


def test_what_cannot_be_made_leaves_nothing(fleets: Fleets, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Refused, match="in use"):
        life.make(fleets, "night", "127.0.0.1", taken.getsockname()[1])
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(Refused, match="no vllm-router") as caught:
        life.make(fleets, "night", "127.0.0.1", None)
    assert "passerelle[fleet]" in caught.value.remedy
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(Refused, match="needs Linux, and this is darwin"):
        life.make(fleets, "night", "127.0.0.1", None)
    monkeypatch.undo()
    assert fleets.names() == ()


async def test_a_front_that_does_not_run_is_said(fleets: Fleets) -> None:
    fleet = life.make(fleets, "night", "127.0.0.1", None)
    assert life.running(fleets, "night") is None
    with pytest.raises(Unreachable, match="does not run") as caught:
        await life.front_status(fleets, "night")
    assert "fleet start night" in caught.value.remedy
    with pytest.raises(Refused, match="no replicas"):
        await life.start_front(fleets, fleet)
    await life.stop_front(fleets, "night")


async def test_a_replica_that_is_unknown_hides_no_other(fleets: Fleets) -> None:
    found = await life.members([NONE])
    assert [(one.id, one.pod) for one in found] == [(NONE, None)]
    assert "no local pod" in found[0].problem
    for failed in (await life.start_pods([NONE]), await life.stop_pods([NONE], lambda _: None)):
        assert failed == ("local-none: there is no local pod local-none",)
    assert len(await life.wait_serving([NONE, NONE], lambda _: None, 1.0)) == 2


@pytest.mark.process
async def test_a_front_that_cannot_start_says_why(fleets: Fleets) -> None:
    fleet = replace(life.make(fleets, "night", "127.0.0.1", None), replicas=(NONE,))
    fleets.save(fleet)
    with (
        socket.create_server(("127.0.0.1", fleet.port)),
        pytest.raises(PasserelleError, match=r"exit code 2: the front cannot listen"),
    ):
        await life.start_front(fleets, fleet)
    assert life.running(fleets, "night") is None
