"""Addresses, paces and bytes of a Hub."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap.errors import Usage
from bootstrap.hub import CADENCE, Pace, Refused, Store, blob_sha1, commit_body, commit_url, parse, resolve_url


@pytest.mark.parametrize(
    ("url", "store"),
    [
        ("hf://datasets/alice/pods", Store("datasets", "alice/pods")),
        ("hf://datasets/alice/pods/", Store("datasets", "alice/pods")),
        ("hf://datasets/alice/my.pods-1/a/b", Store("datasets", "alice/my.pods-1", "a/b")),
        ("hf://alice/pods", Store("models", "alice/pods")),
        ("hf://alice/pods/sub", Store("models", "alice/pods", "sub")),
        ("hf://spaces/alice/pods", Store("spaces", "alice/pods")),
        ("dir:///srv/store/", Store(None, "/srv/store")),
    ],
)
def test_addresses(url: str, store: Store) -> None:
    assert parse(url) == store


@pytest.mark.parametrize(
    "url", ["", "hf://alice", "hf://datasets/alice", "dir://relative", "https://x/y", "hf://a b/c"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(Usage, match="hf://datasets/OWNER/NAME"):
        parse(url)


def test_urls_have_a_prefix_for_all_but_models() -> None:
    model, data = Store("models", "alice/pods", "sub"), Store("datasets", "alice/pods")
    assert resolve_url("https://h", model, "main", "pod.toml") == "https://h/alice/pods/resolve/main/sub/pod.toml"
    assert resolve_url("https://h", data, "abc", "pod.toml") == "https://h/datasets/alice/pods/resolve/abc/pod.toml"
    assert commit_url("https://h", model) == "https://h/api/models/alice/pods/commit/main"


@given(st.binary(max_size=300))
def test_a_commit_is_two_lines_of_json(content: bytes) -> None:
    header, file = (json.loads(line) for line in commit_body("etat/a.log", content, "log").splitlines())
    assert header == {"key": "header", "value": {"summary": "log", "description": ""}}
    assert (file["key"], file["value"]["path"], file["value"]["encoding"]) == ("file", "etat/a.log", "base64")
    assert base64.b64decode(file["value"]["content"]) == content


def test_the_etag_is_gits_name_of_the_file() -> None:
    named = subprocess.run(["git", "hash-object", "--stdin"], input=b"[pod]\n", capture_output=True, check=True)
    assert blob_sha1(b"[pod]\n") == named.stdout.decode().strip()


QUOTA = "You have exceeded the rate limit for repository commits (128 per hour). You can retry this action in about "


@pytest.mark.parametrize(
    ("status", "headers", "text", "failures", "seconds"),
    [
        (429, {"Retry-After": "3600"}, QUOTA + "1 hour.", 0, 3600.0),
        (429, {}, QUOTA + "1 hour.", 0, 3600.0),
        (429, {}, QUOTA + "12 minutes.", 0, 720.0),
        (429, {"RateLimit": '"api";r=0;t=55'}, "We had to rate limit you", 0, 55.0),
        (429, {"RateLimit": '"api";r=900;t=100'}, "slow down", 0, 900.0),
        (503, {"Retry-After": "30"}, "", 0, 30.0),
        (503, {"Retry-After": "soon"}, "", 0, 5.0),
        (500, {}, "", 3, 40.0),
        (0, {}, "timed out", 99, 300.0),
        (404, {}, "Entry not found", 9, 5.0),
    ],
)
def test_when_to_ask_again(status: int, headers: dict[str, str], text: str, failures: int, seconds: float) -> None:
    assert Refused(text, status, headers).retry_s(failures) == seconds


def test_a_pace_is_fast_at_first_and_then_slow() -> None:
    pace, now, times = Pace(), 1000.0, []
    for number in range(60):
        while not pace.allows(f"{number}", now, urgent=False):
            now += 1.0
        times.append(now - 1000.0)
        pace = pace.committed(f"{number}", now, 25.0)
    assert times[:3] == [0.0, 25.0, 50.0]
    assert times[12] - times[11] == 60.0
    assert times[40] - times[39] == CADENCE[-1][1] == 300.0
    hours = [sum(at // 3600.0 == hour for at in times) for hour in range(2)]
    assert hours[0] <= 45
    assert hours[1] <= 12


def test_only_a_change_is_committed_and_a_last_word_waits_for_nobody_but_the_hub() -> None:
    pace = Pace().committed("a", 0.0, 25.0)
    assert not pace.allows("a", 1e9, urgent=True)
    assert not pace.allows("b", 24.0, urgent=False)
    assert pace.allows("b", 24.0, urgent=True)
    assert not pace.barred(3600.0).allows("b", 3599.0, urgent=True)
    assert pace.barred(3600.0).allows("b", 3600.0, urgent=False)
