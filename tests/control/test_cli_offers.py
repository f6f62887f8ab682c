"""`passerelle pod offers` against the double."""

from __future__ import annotations

import json

import pytest

from control.cli import run
from tests.control.test_cli_pod import double as double
from tests.control.test_cli_pod import home as home
from tests.doubles.runpod import RunPodDouble


def test_offers(double: RunPodDouble, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pod", "offers", "--gpu", "a40", "--gpu", "h200", "--json"], None) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(offer["gpu"], offer["per_hour"], offer["stock"]) for offer in found] == [
        ("NVIDIA A40", 0.44, "HIGH"),
        ("NVIDIA H200", 3.99, "HIGH"),
    ]
    assert run(["pod", "offers", "--max-price", "0.5"], None) == 0
    out = capsys.readouterr().out
    assert "1×a40" in out
    assert "12.8 13.0; EU-SE-1 CA-MTL-1" in out
    assert "h200" not in out
    assert run(["pod", "offers", "--max-price", "0.01"], None) == 0
    assert "nothing fits" in capsys.readouterr().err
