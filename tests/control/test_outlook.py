"""What a publish would do, in words and as values."""

from __future__ import annotations

import json

import msgspec
import pytest

from bootstrap.plan import Action, Plan
from bootstrap.report import Status
from bootstrap.spec import parse
from control.draft import Draft
from control.hub import Published
from control.outlook import Outlook, lines, values
from tests.control.pod_double import status

SPEC = parse('[serve]\nmodel = "t"\n[models.t]\nrepo = "o/t"\n')


def outlook(action: Action, said: Status | None, diff: tuple[str, ...] = (), why: str = "") -> Outlook:
    draft = Draft(Published("c1", {}), 42, SPEC, {"pod.toml": b"x"}, diff, "serial 42")
    return Outlook(draft, Plan(action, ("[serve] images: 4 -> 8",)), said, why)


def test_a_restart_is_said_with_its_length_and_its_streams() -> None:
    said = lines(outlook("restart engine", status(live=6, took_s=95.4), ("-images = 4", "+images = 8")))
    assert said == [
        "-images = 4",
        "+images = 8",
        "",
        "  [serve] images: 4 -> 8",
        "plan: restart engine (about 95 s, as at its last start); serial 42",
        "  streams in flight: 6, the restart waits for them for a bounded time, then cuts them",
    ]


@pytest.mark.parametrize(
    ("action", "live", "last"),
    [
        ("reload bridge", 6, "  streams in flight: 6, none of them is lost"),
        ("reload bridge", 0, "  streams in flight: 0"),
        ("needs a new pod", 2, "  streams in flight: 2, which go on: the pod keeps what it runs"),
        ("reload bridge", None, "plan: reload bridge; serial 42"),
    ],
)
def test_the_streams(action: Action, live: int | None, last: str) -> None:
    assert lines(outlook(action, status(live=live, took_s=95.0)))[-1] == last


def test_a_silent_pod_is_said() -> None:
    assert lines(outlook("nothing", None, why="no pod runs"))[-1] == (
        "  what the pod runs is not known (no pod runs): compared with what is published"
    )


def test_the_values_are_json() -> None:
    said = json.loads(msgspec.json.encode(values(outlook("swap model", status(serial=41, live=1, took_s=30.0)))))
    assert said["action"] == "swap model"
    assert (said["serial"], said["running_serial"], said["live"], said["eta_s"]) == (42, 41, 1, 30.0)
    assert json.loads(msgspec.json.encode(values(outlook("nothing", None))))["running_serial"] is None
