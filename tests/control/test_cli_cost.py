"""`passerelle cost`: figures, exit codes, and a budget that stops the pod."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from control import cli_cost
from control.cli import run
from control.cost import Tokens
from control.costs import Counted
from control.observe.updates import ReportSeen
from tests.control.observe.reports import metrics, seen
from tests.control.test_cli_pod import double as double
from tests.control.test_cli_pod import home as home
from tests.control.test_cli_pod import rented as rented
from tests.doubles.runpod import RunPodDouble


def spend(home: Path, pod: str, dollars: float) -> None:
    """As if the pod had cost that much: an earlier span, long over."""
    path = home / "pods" / pod / "rented.json"
    kept = json.loads(path.read_text())
    earlier = {"kind": "compute", "start": 0.0, "seen": 3600.0, "per_hour": dollars, "open": False, "unsure": 0.0}
    path.write_text(json.dumps(kept | {"spans": [earlier, *kept["spans"]]}))


def test_what_it_costs(rented: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend(home, rented, 2.5)
    assert run(["cost", "--json"], None) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["spent"] == pytest.approx(2.5, abs=0.1)
    assert found["per_hour_now"] == 0.44
    assert found["account"]["reason"] == "no library"
    assert run(["cost"], None) == 0
    out = capsys.readouterr().out
    assert "spent    2.50 $" in out
    assert "balance  -  (no library)" in out


@pytest.mark.parametrize(("spent", "code", "word"), [(1.0, 0, "ok"), (4.2, 1, "warn"), (6.0, 2, "stop")])
def test_a_budgets_exit_code(
    rented: str, home: Path, spent: float, code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(home, rented, spent)
    assert run(["cost", "--budget", "5"], None) == code
    assert capsys.readouterr().out.rstrip().endswith(word)


def test_a_budget_that_is_used_up_stops_the_pod(
    rented: str, double: RunPodDouble, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(home, rented, 6.0)
    assert run(["cost", "--budget", "5", "--watch", "--json"], None) == 2
    out, err = capsys.readouterr()
    assert "the budget of 5.00 $ is used up; stopping" in err
    assert json.loads(out)["state"] == "EXITED"
    assert double.cloud.status(double.cloud.pods[rented]) == "EXITED"


def test_a_watch_warns_once_and_goes_on_while_the_provider_is_silent(
    rented: str, double: RunPodDouble, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(home, rented, 4.5)
    looks = 0

    async def sleep(self: object, seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2 * cli_cost.LOOKS_INSIDE:
            double.cloud.faults.gateway = 3
        if looks == 8 * cli_cost.LOOKS_INSIDE:
            spend(home, rented, 2.0)

    monkeypatch.setattr("control.clock.Clock.sleep", sleep)
    monkeypatch.setattr(cli_cost, "LOOK_EVERY_S", 0.0)
    assert run(["cost", "--budget", "5", "--watch"], None) == 2
    err = capsys.readouterr().err
    assert err.count("of 5.00 $ are spent") == 1
    assert "HTTP 502" in err


def test_whose_counters_tell_of_tokens() -> None:
    report = replace(seen().report, at=5_000.0, uptime_s=60.0, totals={"input_tokens": 7, "output_tokens": 2})
    engine = cli_cost.counted_by(ReportSeen(report, None, metrics(start=1_400.0, prompt_computed=5.0, generation=3.0)))
    assert engine == Counted(Tokens(5.0, 3.0, None, None), 3_600.0, "engine")
    assert cli_cost.counted_by(ReportSeen(report, None, None)) == Counted(Tokens(7, 2), 60.0, "bridge")
    assert cli_cost.counted_by(ReportSeen(replace(report, totals={}), None, None)) is None
