"""How the verbs speak: progress that says each thing once, and a pod as one row of plain values."""

from __future__ import annotations

import json

import msgspec
import pytest

from control.cli_output import progress, row, would
from tests.control.observe.reports import POD


def test_progress_says_each_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    say = progress()
    for text in (
        "0:01  the image is being pulled (1 s)",
        "0:05  the image is being pulled (5 s)",
        "0:09  the engine loads its model, about 1:00 to go",
        "0:13  the engine loads its model, about 0:56 to go",
        "waiting for 2 streams in flight",
        "waiting for 2 streams in flight",
        "waiting for 1 stream in flight",
    ):
        say(text)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "0:01  the image is being pulled (1 s)",
        "0:09  the engine loads its model, about 1:00 to go",
        "waiting for 2 streams in flight",
        "waiting for 1 stream in flight",
    ]


def test_a_row_is_plain_json_without_a_token() -> None:
    found = json.loads(msgspec.json.encode(row(POD)))
    assert (found["id"], found["state"], found["budget"]) == ("local-0001", "RUNNING", None)
    assert not [name for name in found if "token" in name]


def test_what_a_dry_run_would_do() -> None:
    assert would(POD, "stop") == "would stop the processes of local-0001 on this machine"
