"""The pod that all tests here share: its engine takes half a minute to start. test_life.py, the last file, ends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.pods import RealPod, running


@pytest.fixture(scope="session")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPod]:
    with running(tmp_path_factory.mktemp("home")) as one:
        yield one
