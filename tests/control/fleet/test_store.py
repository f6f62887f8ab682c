"""The files of the fleets: what is written is read, secrets are their owner's alone, names are plain words."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from control.errors import Refused, UsageError
from control.fleet.models import Fleet
from control.fleet.store import Fleets, Front, NoSuchFleet
from control.local.store import ProcessMark
from control.models import PodId, Tokens

FLEET = Fleet("night", 5.0, (PodId("local-1"), PodId("abc")), "127.0.0.1", 8080)


def test_a_fleet_is_found_again(tmp_path: Path) -> None:
    fleets = Fleets(tmp_path)
    assert fleets.names() == ()
    fleets.save(FLEET)
    fleets.save_tokens("night", Tokens("c", "o"))
    again = Fleets(tmp_path)
    assert again.names() == ("night",)
    assert again.load("night") == FLEET
    assert again.tokens("night") == Tokens("c", "o")
    assert again.front("night") is None
    again.remove("night")
    again.remove("night")
    assert fleets.names() == ()
    with pytest.raises(NoSuchFleet, match="no fleet night"):
        fleets.load("night")


def test_secrets_are_their_owners_alone_and_shown_to_nobody(tmp_path: Path) -> None:
    fleets, front = Fleets(tmp_path), Front(ProcessMark(1, 2.0), 3, "planted0secret")
    fleets.save_tokens("night", Tokens("c", "o"))
    fleets.save_front("night", front)
    for name in ("tokens.json", "front.json"):
        assert stat.S_IMODE((tmp_path / "fleets" / "night" / name).stat().st_mode) == 0o600
    assert fleets.front("night") == front
    assert "planted0secret" not in repr(front)
    fleets.forget_front("night")
    fleets.forget_front("night")
    assert fleets.front("night") is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "é", "."])
def test_a_name_is_a_plain_word(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        Fleets(tmp_path).folder(name)


def test_a_file_that_cannot_be_read_says_which(tmp_path: Path) -> None:
    (tmp_path / "fleets" / "night").mkdir(parents=True)
    (tmp_path / "fleets" / "night" / "fleet.json").write_text("{")
    with pytest.raises(Refused, match=r"fleet\.json"):
        Fleets(tmp_path).load("night")


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:9"), ("0.0.0.0", "http://127.0.0.1:9"), ("::1", "http://[::1]:9")]
)
def test_the_address_for_a_client_on_this_machine(host: str, url: str) -> None:
    assert Fleet("n", 0.0, (), host, 9).url == url
