"""The balance, from RunPod's own library when it is there; a dash with a reason when anything is wrong."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from control.models import Account
from control.runpod import sdk
from tests.doubles.runpod import KEY, RunPodDouble


async def asked(answer: Any) -> Account:
    def ask(query: str, key: str) -> Any:
        assert "clientBalance" in query
        if isinstance(answer, Exception):
            raise answer
        return answer

    return await sdk.account("rpa_planted", ask)


async def test_the_three_figures() -> None:
    me = {"clientBalance": 12.5, "currentSpendPerHr": 0.44, "spendLimit": 80}
    assert await asked({"data": {"myself": me}}) == Account(12.5, 0.44, 80.0)
    assert await asked({"data": {"myself": {"clientBalance": 1}}}) == Account(1.0, None, None)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ImportError("No module named runpod"), "not installed"),
        (KeyError("data"), "KeyError"),
        (RuntimeError("rpa_planted in a message"), "RuntimeError"),
        ({"data": None}, "without a balance"),
        ({"data": {"myself": {"clientBalance": "much"}}}, "without a balance"),
        ([], "without a balance"),
    ],
)
async def test_what_goes_wrong_is_a_dash_with_a_reason(answer: Any, reason: str) -> None:
    found = await asked(answer)
    assert (found.balance, found.per_hour, found.limit_per_hour) == (None, None, None)
    assert reason in found.reason
    assert "planted" not in found.reason


async def test_a_library_that_hangs_is_left_behind() -> None:
    release = threading.Event()

    def ask(query: str, key: str) -> Any:
        release.wait()

    found = await sdk.account("k", ask, within_s=0.05)
    release.set()
    assert "has not answered within 0.05 s" in found.reason


async def test_without_the_library_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "runpod", None)
    assert "pip install" in (await sdk.account("k")).reason


@pytest.mark.sdk
async def test_runpods_own_library_against_the_double(double: RunPodDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_BASE_URL", double.url)
    double.cloud.balance = 42.5
    assert await sdk.account(KEY) == Account(42.5, 0.0, 80.0)
    assert double.asked("POST", "/graphql")[0].headers["user-agent"].startswith("RunPod-Python-SDK")
    wrong = await sdk.account("rpa_wrong")
    assert (wrong.balance, "AuthenticationError" in wrong.reason) == (None, True)
    double.cloud.faults.graphql_error = "Something went wrong. Please try again later or contact support."
    assert "QueryError" in (await sdk.account(KEY)).reason
    double.cloud.faults.graphql_retired = True
    assert (await sdk.account(KEY)).balance is None
