"""A pod as publishing sees it: what it reports, look by look, and a clock that only moves when somebody waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bootstrap.report import Applied, Host, Service, Status
from control.clock import Clock
from control.errors import Refused, Unreachable

SERVICE = Service("serving", 1, 1.0, 0, 0, None, None, ())
STATUS = Status("0.1.0", 1, 1.0, 1, "tiny", None, SERVICE, SERVICE, Host(), (), 0, live=0)


def status(
    serial: int | None = 1, live: int | None = 0, error: str | None = None, took_s: float | None = None
) -> Status:
    applied = Applied(1.0, "reload bridge", (), None)
    engine = replace(SERVICE, took_s=took_s)
    return replace(STATUS, serial=serial, live=live, config_error=error, engine=engine, applied=applied)


class StillClock(Clock):
    def __init__(self) -> None:
        self.at = 1000.0
        self.meanwhile: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.meanwhile()


@dataclass
class PodDouble:
    """Answers with `says` in their order, the last one for ever; None is silence."""

    says: list[Status | None] = field(default_factory=lambda: [status()])
    looked: int = 0
    refuses_to_look: bool = False

    async def status(self) -> Status:
        said = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        if said is None:
            raise Unreachable("the pod does not answer")
        return said

    async def look(self) -> None:
        self.looked += 1
        if self.refuses_to_look:
            raise Refused("nothing new")
