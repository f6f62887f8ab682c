"""What bootstrap's control socket is asked and answers, by any way there: JSON lines, or words of its `ctl`. Pure."""

from __future__ import annotations

import json
from typing import Any

from control.errors import PasserelleError, Refused, Unreachable

Request = dict[str, Any]
"""{"cmd": "status" | "tail" | …} or one of LIVE_ONLY, of which "drain" is the bridge's alone."""

Response = dict[str, Any]
"""What came with {"ok": true}."""

LIVE_ONLY = ("restart", "swap", "apply", "keep", "desktop", "stop-pod", "drain")
"""What changes something: it needs a pod that answers; the others can be read of one that does not."""

CTL_REFUSED, CTL_UNREACHABLE = 2, 3
"""Exit codes of `passerelle-bootstrap ctl`."""


def line(request: Request) -> bytes:
    """One request line."""
    return json.dumps(request, separators=(",", ":")).encode() + b"\n"


def answer(text: bytes, where: str) -> Response:
    """The response of one line. Raises Refused with bootstrap's own words, Unreachable for what is no response."""
    try:
        response = json.loads(text)
        accepted = response["ok"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        said = "nothing" if not text.strip() else "no line of its protocol"
        raise Unreachable(f"bootstrap at {where} answered {said}") from error
    if accepted is not True:
        raise Refused(str(response.get("error") or "no reason given"))
    return dict(response)


def ctl_words(request: Request) -> list[str]:
    """The same request for the program: {"cmd":"swap","model":"q"} -> swap q."""
    match request:
        case {"cmd": "restart", "service": str(what)} | {"cmd": "swap", "model": str(what)}:
            return [str(request["cmd"]), what]
        case {"cmd": "tail"}:
            raise Unreachable("the log cannot be read by ctl, and this SSH server forwards no sockets")
        case {"cmd": str(verb)}:
            return [verb]
    raise ValueError(f"no such request: {request}")


def ctl_answer(request: Request, status: int | None, out: bytes, err: bytes, where: str) -> Response:
    """What the program printed and how it ended, as the socket would have said it."""
    said = " ".join(err.decode("utf-8", "replace").split())[-400:].removeprefix("passerelle-bootstrap: ")
    if status != 0:
        raise _failure(status, said, where)
    try:
        printed = json.loads(out)
    except ValueError as error:
        raise Unreachable(f"`passerelle-bootstrap ctl` at {where} printed no JSON") from error
    if not isinstance(printed, dict):
        raise Unreachable(f"`passerelle-bootstrap ctl` at {where} printed no object")
    return {"ok": True, "status": printed} if request["cmd"] == "status" and "status" not in printed else printed


def _failure(status: int | None, said: str, where: str) -> PasserelleError:
    if "can't open file" in said:  # python3 -P of a zipapp that is not there: exit code 2 too
        return Unreachable(f"the pod at {where} has not fetched its code yet", "why: passerelle pod logs")
    if status == CTL_REFUSED:
        return Refused(said or "refused without a reason")
    if status == CTL_UNREACHABLE:
        return Unreachable(f"at {where}: {said or 'no bootstrap answers'}")
    if status in (126, 127):
        return Unreachable(f"there is no passerelle-bootstrap at {where} ({said or f'exit {status}'})")
    return Unreachable(f"`passerelle-bootstrap ctl` at {where} ended with {status}: {said or 'no word'}")
