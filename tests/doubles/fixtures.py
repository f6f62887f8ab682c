"""Doubles as pytest fixtures: `from tests.doubles.fixtures import hub  # noqa: F401` in the test that needs one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doubles.hub import HubDouble


@pytest.fixture
def hub() -> Iterator[HubDouble]:
    with HubDouble() as double:
        yield double
