"""PodLink: the pod's report typed, and every way of not getting one told apart."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import msgspec
import pytest

from control.errors import PasserelleError, Refused, Unauthorized
from control.models import Target
from control.podlink import NotABridge, PodLink, PortSilent
from tests.control.observe.reports import seen

TARGET = Target("http://127.0.0.1:1", "pas-operator-secret")

Answer = Callable[[httpx.Request], httpx.Response]


async def report(answer: Answer) -> object:
    async with PodLink(TARGET, httpx.MockTransport(answer)) as link:
        return await link.report(41)


async def test_a_report_is_typed_and_fields_of_a_newer_pod_are_ignored() -> None:
    sent = seen().report
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=msgspec.to_builtins(sent) | {"newer": {"field": 1}})

    assert await report(answer) == sent
    assert asked[0].url.params["log_after"] == "41"
    assert asked[0].headers["authorization"] == "Bearer pas-operator-secret"
    assert asked[0].headers["user-agent"] == "passerelle"


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (
            401,
            '{"type":"error","error":{"type":"authentication_error","message":"wrong token"}}',
            Unauthorized,
            "wrong token",
        ),
        (403, "", Unauthorized, "HTTP 403"),
        (502, "<html>Bad Gateway</html>", NotABridge, "Bad Gateway"),
        (404, "not found", NotABridge, "HTTP 404"),
        (409, "busy", Refused, "busy"),
        (200, "<html>hello</html>", NotABridge, "not a report"),
        (200, '{"version": 3}', NotABridge, "not a report"),
    ],
)
async def test_an_answer_that_is_no_report(status: int, body: str, kind: type[PasserelleError], words: str) -> None:
    with pytest.raises(kind) as caught:
        await report(lambda _: httpx.Response(status, text=body))
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ConnectError("refused"), PortSilent),
        (httpx.ConnectTimeout("slow"), PortSilent),
        (httpx.ReadTimeout("slow"), PortSilent),
        (httpx.RemoteProtocolError("half"), NotABridge),
        (httpx.ReadError("reset"), NotABridge),
    ],
)
async def test_no_answer(error: httpx.HTTPError, kind: type[PasserelleError]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(kind) as caught:
        await report(answer)
    assert caught.value.__cause__ is error
    assert caught.value.exit_code == 3


async def test_restart_names_the_service() -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        return httpx.Response(200, json={"ok": True})

    async with PodLink(TARGET, httpx.MockTransport(answer)) as link:
        await link.restart("bridge")
    assert msgspec.json.decode(asked[0]) == {"service": "bridge"}


def test_a_target_hides_its_token() -> None:
    assert "secret" not in repr(TARGET)
