"""Answers that are errors, of every generation of RunPod's API and of what stands in front of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.errors import NoSuchPod, PasserelleError
from control.runpod.problems import (
    Ambiguous,
    ApiRetired,
    BadRequest,
    EdgeBlocked,
    Forbidden,
    KeyRefused,
    Limited,
    NoCapacity,
    NoFunds,
    WrongState,
    problem,
)

NO_MORE = "There are no longer any instances available with the requested specifications. Please refresh and try again."
HOST = "There are not enough free GPUs on the host machine to start this pod."
LOW = "Your account balance is too low to rent a pod. Please add funds to your account."


def v2(status: int, detail: str, **more: object) -> bytes:
    return json.dumps({"title": "T", "status": status, "detail": detail} | more).encode()


def v1(status: int, error: str) -> bytes:
    return json.dumps({"error": error, "status": status}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, v2(400, NO_MORE), NoCapacity),
        (500, v1(500, "create pod: There are no instances currently available"), NoCapacity),
        (500, v1(500, "create pod: This machine does not have the resources to deploy your pod"), NoCapacity),
        (400, v1(400, HOST), NoCapacity),
        (500, v1(500, f"start pod: {HOST}"), NoCapacity),
        (402, v2(402, LOW), NoFunds),
        (500, v1(500, f"create pod: {LOW}"), NoFunds),
        (401, v2(401, "missing bearer token"), KeyRefused),
        (401, b"Unauthorized", KeyRefused),
        (403, v2(403, "access denied"), Forbidden),
        (403, b"error code: 1010", EdgeBlocked),
        (404, v2(404, "resource not found"), NoSuchPod),
        (409, v2(409, "cannot start"), WrongState),
        (410, b"Gone", ApiRetired),
        (422, v2(422, "Request validation failed.", errors=["$: missing property 'disk'"]), BadRequest),
        (400, v2(400, "request could not be processed"), BadRequest),
        (500, v1(500, "create pod: context deadline exceeded"), Ambiguous),
        (502, b"<html><h1>Bad gateway</h1></html>", Ambiguous),
        (524, b"", Ambiguous),
    ],
)
def test_by_what_can_be_done(status: int, body: bytes, kind: type[PasserelleError]) -> None:
    made = problem(status, {}, body, "POST /v2/pods")
    assert type(made) is kind


def test_the_errors_own_words_are_kept_and_markup_is_not() -> None:
    body = v2(422, "Request validation failed.", errors=["$: missing property 'disk'"])
    assert "missing property 'disk'" in problem(422, {}, body, "x").message
    assert problem(502, {}, b"<html><h1>Bad\ngateway</h1>", "GET /v2/pods").message == (
        "RunPod to GET /v2/pods: HTTP 502, Bad gateway"
    )


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "9999"}, 60.0),
        ({"retry-after": "soon", "ratelimit": '"minute";r=0;t=12, "hour";r=2800;t=1812'}, 12.0),
        ({"ratelimit": '"minute";r=3;t=12'}, 5.0),
        ({}, 5.0),
    ],
)
def test_how_long_a_limit_asks_to_wait(headers: dict[str, str], wait: float) -> None:
    made = problem(429, headers, v2(429, "rate limit"), "x")
    assert isinstance(made, Limited)
    assert made.wait_s == wait


@given(st.integers(300, 599), st.binary(max_size=200))
def test_any_answer_is_an_error_of_ours(status: int, body: bytes) -> None:
    made = problem(status, {}, body, "GET /v2/pods")
    assert isinstance(made, PasserelleError)
    assert "\n" not in made.message
