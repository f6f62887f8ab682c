"""The child that speaks to the Hub, without its library and with nonsense; against the double it is in test_hub_hf."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import httpx2
import pytest

from control.hub_worker import _refuse_long_waits, _Wait, serve


def answers(*requests: str) -> list[dict[str, object]]:
    out = io.StringIO()
    serve(io.StringIO("".join(request + "\n" for request in requests)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (said,) = answers('{"op": "make", "kind": "dataset", "repo": "a/b"}')
    assert (said["ok"], said["error"], said["remedy"]) == (False, "refused", "pip install huggingface_hub")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": "16", "ratelimit": '"api";r=0;t=3'}, 16.0),
        ({"ratelimit": '"api";r=0;t=55'}, 55.0),
        ({"ratelimit": '"api";r=900;t=55'}, None),
        ({}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ],
)
def test_a_long_or_unknown_wait_is_said_instead_of_slept(headers: dict[str, str], seconds: float | None) -> None:
    with pytest.raises(_Wait, match="too many") as caught:
        _refuse_long_waits(httpx2.Response(429, headers=headers, json={"error": "too many"}))
    assert caught.value.seconds == seconds


def test_a_hub_that_will_be_away_for_an_hour_is_not_waited_for() -> None:
    with pytest.raises(_Wait, match="HTTP 503") as caught:
        _refuse_long_waits(httpx2.Response(503, headers={"retry-after": "3600"}, content=b"<html>"))
    assert (caught.value.kind, caught.value.seconds) == ("unreachable", 3600.0)


@pytest.mark.parametrize(
    ("status", "headers"),
    [(200, {"retry-after": "99"}), (503, {}), (503, {"retry-after": "2"}), (429, {"retry-after": "2"})],
)
def test_a_short_wait_is_the_librarys_own_matter(status: int, headers: dict[str, str]) -> None:
    _refuse_long_waits(httpx2.Response(status, headers=headers, content=b"<html>"))


def test_a_page_that_is_no_json_is_named_by_its_status() -> None:
    with pytest.raises(_Wait, match="HTTP 429"):
        _refuse_long_waits(httpx2.Response(429, headers={"retry-after": "99"}, content=b"<html>"))


@pytest.mark.process
def test_it_ends_with_its_input() -> None:
    argv = [sys.executable, "-P", "-m", "control.hub_worker"]
    done = subprocess.run(argv, input="", capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "")
