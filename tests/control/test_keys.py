"""Secrets: where they are looked for, where they go, who can read them, and a keyring that fails or hangs."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from control import keys
from control.errors import Refused
from control.keys import HUGGING_FACE, RUNPOD, Keys, masked
from control.models import PodId, Tokens

POD = PodId("7h9k2m4n6p")


class Memory:
    """A keyring that works."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class Broken(Memory):
    def get_password(self, service: str, username: str) -> str | None:
        raise RuntimeError("locked, and the secret is rpa_planted")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise RuntimeError(f"locked: {password}")


def test_the_environment_wins_over_the_keyring_and_that_over_nothing(tmp_path: Path) -> None:
    ring = Memory()
    kept = Keys(tmp_path, ring, {})
    assert kept.get(RUNPOD) is None
    assert kept.where(RUNPOD) is None
    assert kept.set(RUNPOD, "rpa_1") == "keyring"
    assert (kept.get(RUNPOD), kept.where(RUNPOD)) == ("rpa_1", "keyring")
    named = Keys(tmp_path, ring, {RUNPOD: "rpa_2"})
    assert (named.get(RUNPOD), named.where(RUNPOD)) == ("rpa_2", "environment")
    assert not (tmp_path / "secrets.json").exists(), "what the keyring took is in no file"


def test_without_a_keyring_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    kept = Keys(tmp_path, Broken(), {})
    assert kept.set(HUGGING_FACE, "hf_1") == "file"
    assert (kept.get(HUGGING_FACE), kept.where(HUGGING_FACE)) == ("hf_1", "file")
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600


def test_a_secret_that_moves_into_the_keyring_leaves_the_file(tmp_path: Path) -> None:
    Keys(tmp_path, Broken(), {}).set(RUNPOD, "rpa_old")
    Keys(tmp_path, Memory(), {}).set(RUNPOD, "rpa_new")
    assert b"rpa_old" not in (tmp_path / "secrets.json").read_bytes()


def test_a_keyring_that_hangs_is_left_alone_after_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYRING_WITHIN_S", 0.01)
    asked = threading.Event()

    class Hanging(Memory):
        def set_password(self, service: str, username: str, password: str) -> None:
            asked.wait()

    assert Keys(tmp_path, Hanging(), {}).set(RUNPOD, "rpa_1") == "file"
    asked.set()


def test_the_system_without_a_keyring_is_known_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backends import null

    monkeypatch.setattr(keyring, "get_keyring", null.Keyring)
    assert Keys(tmp_path, environ={}).set(RUNPOD, "rpa_1") == "file", "the null keyring would have lost it"
    assert Keys(tmp_path, environ={"PASSERELLE_KEYRING": "off"}).get(RUNPOD) == "rpa_1"


def test_a_pods_tokens(tmp_path: Path) -> None:
    kept = Keys(tmp_path, Memory(), {})
    assert kept.tokens(POD) is None
    kept.set_tokens(POD, Tokens("a", "b"))
    assert kept.tokens(POD) == Tokens("a", "b")
    kept.delete_tokens(POD)
    kept.delete_tokens(POD)
    assert kept.tokens(POD) is None


def test_a_damaged_file_is_named_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text('{"RUNPOD_API_KEY": "rpa_planted')
    with pytest.raises(Refused, match=r"secrets\.json") as caught:
        Keys(tmp_path, Memory(), {}).get(RUNPOD)
    assert "rpa_planted" not in str(caught.value)


def test_masked_text_holds_no_secret_even_inside_another() -> None:
    assert masked("a=abcdefgh b=abcdef c=xy", ("abcdef", "abcdefgh", "xy", "")) == "a=••• b=••• c=xy"
