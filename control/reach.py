"""Ways to a pod, best first: its bridge, its supervisor's socket (here or over SSH), what it last wrote elsewhere.

Every answer says by which way it came, how old it is, and why the better ways gave none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from bootstrap.report import LogLine, Status
from control.ctl import LIVE_ONLY, Request, Response
from control.errors import PasserelleError, Unreachable
from control.models import PodId

T = TypeVar("T")


class Via(StrEnum):
    """Which way an answer came."""

    BRIDGE = "bridge"
    SOCKET = "socket"
    SSH = "ssh"
    HUB = "hub"
    FILE = "file"
    """What the pod wrote on this machine, for an embedded one."""
    MEMORY = "memory"
    """What we ourselves last saw of it."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A way that gave no answer."""

    via: Via
    why: str


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    value: T
    via: Via
    age_s: float
    """0 from a pod that answers; else since what is told was written."""
    passed: tuple[Passed, ...] = ()

    def how(self) -> str:
        """For people: "over SSH, as the bridge gave no answer: timed out"; empty for the first way."""
        if not self.passed:
            return ""
        reasons = "; ".join(f"{passed.via}: {passed.why}" for passed in self.passed)
        return f"{HOW[self.via]}{age_words(self.age_s)} ({reasons})"


HOW = {
    Via.BRIDGE: "through the bridge",
    Via.SOCKET: "through the supervisor's socket",
    Via.SSH: "over SSH",
    Via.HUB: "from the log's mirror on the Hub",
    Via.FILE: "from the log's file",
    Via.MEMORY: "as it was last seen from here",
}


@dataclass(frozen=True, slots=True)
class Said:
    """What one way answered, and how old that is."""

    response: Response
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LogPage:
    lines: tuple[LogLine, ...]
    next: int
    """The `after` to ask for next time, by the same way."""


class Way(Protocol):
    """One way to a pod. Raises Unreachable when it leads nowhere; any other error is the pod's own word."""

    @property
    def via(self) -> Via: ...

    async def ask(self, request: Request) -> Said: ...


class Reach:
    """One pod and the ways to it."""

    def __init__(self, pod_id: PodId, ways: Sequence[Way], missing: Sequence[Passed] = ()) -> None:
        """`missing`: ways that this pod does not have, and why."""
        self.pod_id = pod_id
        self.ways = tuple(ways)
        self._missing = tuple(missing)

    async def ask(self, request: Request) -> Answer[Response]:
        """The first answer. Raises what a pod that answers says, or Unreachable with the word of every way."""
        passed: list[Passed] = []
        for way in self.ways:
            try:
                said = await way.ask(request)
            except Unreachable as error:
                passed.append(Passed(way.via, error.message))
            else:
                return Answer(said.response, way.via, said.age_s, tuple(passed))
        raise self._nowhere(request, passed)

    async def status(self) -> Answer[Status]:
        """What the supervisor says of the pod."""
        found = await self.ask({"cmd": "status"})
        return _typed(found, "status", Status)

    async def log(self, after: int | None, limit: int = 500) -> Answer[LogPage]:
        """The lines after `after`; None asks for the newest ones."""
        found = await self.ask({"cmd": "tail", "after": after, "limit": limit})
        lines = _typed(found, "log", tuple[LogLine, ...])
        return Answer(LogPage(lines.value, int(found.value.get("log_next", 0))), lines.via, lines.age_s, lines.passed)

    def _nowhere(self, request: Request, passed: list[Passed]) -> PasserelleError:
        words = "; ".join(f"{way.via}: {way.why}" for way in (*passed, *self._missing)) or "there is no way to it"
        remedy = (
            f"is it running? passerelle pod list; what it says of its start: passerelle pod logs {self.pod_id};"
            f" every way, one by one: passerelle link {self.pod_id}"
        )
        if request["cmd"] == "drain" and any(way.via is Via.BRIDGE for way in passed):
            remedy = (
                f"only the bridge can drain itself; a new one can be started: passerelle bridge restart {self.pod_id}"
            )
        return Unreachable(f"pod {self.pod_id} cannot be reached ({words})", remedy)


def needs_the_pod(request: Request) -> None:
    """For ways that only read what a pod wrote. Raises Unreachable for a request that needs its answer."""
    if request["cmd"] in LIVE_ONLY:
        raise Unreachable("it takes no commands")


def age_words(age_s: float) -> str:
    """ "", ", 40 s old", ", 12 min old"."""
    if age_s < 1.0:
        return ""
    if age_s < 120.0:
        return f", {age_s:.0f} s old"
    if age_s < 7200.0:
        return f", {age_s / 60.0:.0f} min old"
    return f", {age_s / 3600.0:.0f} h old"


def _typed(found: Answer[Response], key: str, kind: type[T]) -> Answer[T]:
    try:
        value = msgspec.convert(found.value[key], kind)
    except (LookupError, msgspec.ValidationError) as error:
        raise Unreachable(
            f"the pod's {key} cannot be read ({error})", "it may run another version; see: passerelle doctor"
        ) from error
    return Answer(value, found.via, found.age_s, found.passed)
