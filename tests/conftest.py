"""Fixtures that every test may ask for: the doubles of the outside services."""

import pytest
from hypothesis import settings

from tests.doubles.fixtures import hub as hub

settings.register_profile("passerelle", deadline=None)  # an example's time says how busy the machine is
settings.load_profile("passerelle")


@pytest.fixture(autouse=True)
def no_secret_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test never finds a real key, nor asks this machine's keyring for one: it could rent something."""
    for name in ("RUNPOD_API_KEY", "RUNPOD_API_BASE_URL", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
