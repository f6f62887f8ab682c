"""Bootstrap's control protocol, by socket and by program: every response is a value or an error of ours."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.ctl import answer, ctl_answer, ctl_words, line
from control.errors import PasserelleError, Refused, Unreachable


def test_a_request_is_one_line() -> None:
    assert line({"cmd": "tail", "after": 3, "limit": 9}) == b'{"cmd":"tail","after":3,"limit":9}\n'
    assert line({"cmd": "swap", "model": "a\nb"}).count(b"\n") == 1


def test_a_refusal_has_bootstraps_own_words() -> None:
    with pytest.raises(Refused, match=r"^no model q$"):
        answer(b'{"ok":false,"error":"no model q"}', "here")
    with pytest.raises(Refused, match="no reason"):
        answer(b'{"ok":null}', "here")


@pytest.mark.parametrize("text", [b"", b"\n", b"[]", b"{}", b"7", b'"ok"', b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_response_is_no_answer(text: bytes) -> None:
    with pytest.raises(Unreachable, match="here"):
        answer(text, "here")


@given(st.binary())
def test_any_bytes(text: bytes) -> None:
    with contextlib.suppress(Refused, Unreachable):
        assert answer(text, "here")["ok"] is True


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"cmd": "status", "log_after": 7}, ["status"]),
        ({"cmd": "restart", "service": "bridge"}, ["restart", "bridge"]),
        ({"cmd": "swap", "model": "q; rm -rf /"}, ["swap", "q; rm -rf /"]),
        ({"cmd": "stop-pod"}, ["stop-pod"]),
        ({"cmd": "keep"}, ["keep"]),
    ],
)
def test_the_words_of_ctl(request_: dict[str, object], words: list[str]) -> None:
    assert ctl_words(request_) == words


def test_ctl_prints_the_status_alone() -> None:
    assert ctl_answer({"cmd": "status"}, 0, b'{\n "serial": 41}', b"", "p") == {"ok": True, "status": {"serial": 41}}
    whole = json.dumps({"ok": True, "status": {"serial": 41}}).encode()
    assert ctl_answer({"cmd": "status"}, 0, whole, b"", "p") == {"ok": True, "status": {"serial": 41}}
    assert ctl_answer({"cmd": "swap", "model": "q"}, 0, b'{"ok": true}', b"", "p") == {"ok": True}


@pytest.mark.parametrize(
    ("status", "err", "kind", "words"),
    [
        (2, b"passerelle-bootstrap: dwell time: 12 s left\n", Refused, "dwell time: 12 s left"),
        (3, b"passerelle-bootstrap: no bootstrap answers on /s\n", Unreachable, "no bootstrap answers on /s"),
        (127, b"sh: 1: exec: passerelle-bootstrap: not found", Unreachable, "there is no passerelle-bootstrap at p"),
        (1, b"Traceback", Unreachable, "ended with 1: Traceback"),
        (None, b"", Unreachable, "ended with None"),
        (2, b"", Refused, "refused without a reason"),
        (2, b"python3: can't open file '/x.pyz': [Errno 2] No such file", Unreachable, "has not fetched its code yet"),
    ],
)
def test_how_ctl_ended(status: int | None, err: bytes, kind: type[PasserelleError], words: str) -> None:
    with pytest.raises(kind) as caught:
        ctl_answer({"cmd": "restart", "service": "engine"}, status, b"", err, "p")
    assert type(caught.value) is kind
    assert words in caught.value.message


@pytest.mark.parametrize("out", [b"", b"done", b"[1]"])
def test_ctl_that_prints_no_object(out: bytes) -> None:
    with pytest.raises(Unreachable, match="printed no"):
        ctl_answer({"cmd": "apply"}, 0, out, b"", "p")
