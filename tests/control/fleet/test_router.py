"""vllm-router's command line, held against the program itself."""

from __future__ import annotations

import subprocess

import pytest

from control.fleet.front import router_program
from control.fleet.router import DAY_S, FLAGS, Ports, argv, door, members, stub


def test_every_replica_is_a_door_of_the_tunnel() -> None:
    words = argv("vllm-router", Ports(1, 2, 3), ("local-1", "local-2"))
    assert words[-3:] == ("--worker-urls", "http://127.0.0.1:3/replica/local-1", "http://127.0.0.1:3/replica/local-2")
    said = dict(zip(words[1::2], words[2::2], strict=False))
    assert (said["--host"], said["--port"], said["--prometheus-port"]) == ("127.0.0.1", "1", "2")
    assert said["--policy"] == "sticky_least_loaded"
    assert door("x") == "/replica/x"


def test_a_long_turn_is_no_failure() -> None:
    assert FLAGS["--request-timeout-secs"] == DAY_S


WORKERS = b"""{"workers":[{"url":"http://127.0.0.1:1/replica/a","model_id":"unknown","worker_type":"regular",
"is_healthy":true,"load":0,"connection_mode":"Http","priority":50,"cost":1.0},
{"url":"http://127.0.0.1:1/replica/b","is_healthy":false}],"total":2,"stats":{"regular_count":2}}"""


def test_whom_it_knows() -> None:
    """As vllm-router 0.1.17 says it."""
    assert members(WORKERS) == {"http://127.0.0.1:1/replica/a": True, "http://127.0.0.1:1/replica/b": False}
    assert members(b"not found") is members(b"{}") is None


def test_what_it_needs_of_a_request() -> None:
    assert stub({"model": "m", "messages": [1, 2], "stream": True, "more": 1}) == {
        "model": "m",
        "messages": [],
        "stream": True,
    }
    assert stub({"prompt": "long"}) == {"model": "", "prompt": "", "stream": False}


@pytest.mark.process
def test_the_router_has_each_of_these_flags() -> None:
    helped = subprocess.run([router_program(), "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert [flag for flag in argv("x", Ports(1, 2, 3), ("a",)) if flag.startswith("--") and flag not in helped] == []
    assert "sticky_least_loaded" in helped
