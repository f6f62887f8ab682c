"""The engine of one model: its log understood, and its death seen even while its API still answers."""

import math
import re
from collections import defaultdict
from dataclasses import dataclass

from bootstrap.enginelog import EngineLog
from bootstrap.keeper import Call, Keeper, Launch, Shop, ask
from bootstrap.machine import SLEEP_LIMIT_S, STARTING, Event

METRICS_LIMIT_S = 3.0
METRICS_EVERY_S = 2.0
CORE_GONE_S = 2.0
DEAD_S = 10.0  # after a line of its log that says so; it mostly ends by itself within one
STALL_S = 300.0  # with requests, and not a token, nor a change of the KV cache; compiling a new shape takes a minute
STUCK_S = 15.0  # the same, where somebody waits for it to finish what it has
_CORE = "VLLM::EngineCor"  # a process name is cut after 15 characters
_GAUGE = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|prompt_tokens_total|generation_tokens_total|kv_cache_usage_perc)"
    rb"(?:\{[^\n]*\})? ([0-9.eE+-]+)$",
    re.MULTILINE,
)


@dataclass(slots=True)
class _Signs:
    # What was seen of one process of it.

    log: EngineLog
    moved_at: float
    requests: float = 0.0  # what it has to do
    progress: tuple[float, ...] = ()  # what moves while it does: token counters, and the KV usage during a prefill
    measured_at: float = -math.inf
    core_at: float | None = None
    dead_at: float | None = None


class Engine(Keeper):
    def __init__(self, launch: Launch, shop: Shop) -> None:
        self.signs = _Signs(EngineLog(shop.clock()), shop.clock())
        super().__init__(launch, shop)

    @property
    def url(self) -> str:
        return (self.launch.health or "").removesuffix("/health")

    @property
    def failure(self) -> str:
        """How it last ended, with what its log said of the reason."""
        fault, how = self.signs.log.fault, self.service.last_exit or "it did not start"
        of_this_start = fault is not None and self.signs.log.began >= self.service.begun
        return f"{how}: {fault.name}: {fault.line} ({fault.remedy})" if fault and of_this_start else how

    def may_end(self, live: int | None) -> bool:
        """Has it finished what it had, or will it never? `live`: the bridges' streams, where they tell."""
        idle = self.signs.requests == 0 if live is None else live == 0
        return idle or self.shop.clock() - self.signs.moved_at > STUCK_S

    def look(self) -> None:
        """To be called every second: is it dead, whatever its API says?"""
        signs, now, pid = self.signs, self.shop.clock(), self.service.pid
        if pid is None or self.service.phase not in ("serving", "draining"):
            return
        if any(name.startswith(_CORE) for name in self.shop.children.names(pid)):
            signs.core_at = now
        elif signs.core_at is not None and now - signs.core_at > CORE_GONE_S:
            self.tell("doomed", "its EngineCore process is gone")
        elif signs.dead_at is not None and now - signs.dead_at > DEAD_S:
            self.tell("doomed", f"its log says: {self._fatal()}")
        elif signs.requests and now - signs.moved_at > STALL_S:
            self.tell("doomed", f"no token in {STALL_S:g} s, with {signs.requests:g} requests")

    async def check(self) -> None:
        await super().check()
        signs, now = self.signs, self.shop.clock()
        if self.service.phase not in STARTING and now - signs.measured_at >= METRICS_EVERY_S:
            signs.measured_at = now
            before = signs.progress
            signs.requests, signs.progress = figures(await ask(f"{self.url}/metrics", METRICS_LIMIT_S))
            if signs.progress != before:
                signs.dead_at = None  # whatever its log said, it computes
            if signs.progress != before or not signs.requests:
                signs.moved_at = now

    async def call(self, what: Call) -> None:
        await super().call(what)
        if what != "prepare":
            await ask(f"{self.url}/{'sleep?level=1' if what == 'sleep' else 'wake_up'}", SLEEP_LIMIT_S, "POST")

    def hear(self, line: str, at: float) -> None:
        before, log = self._fatal(), self.signs.log
        log.feed(line, at)
        if self.service.phase in STARTING and log.phase != "start":
            self.tell("seen", "downloading" if log.phase == "download" else "loading")
        elif self.service.phase not in STARTING and self._fatal() != before:
            self.signs.dead_at = at

    def _fatal(self) -> str | None:
        fault = self.signs.log.fault
        return fault.line if fault and fault.severity in ("fatal", "death") else None

    def _spawn(self) -> Event:
        now = self.shop.clock()
        self.signs = _Signs(EngineLog(now), now)
        return super()._spawn()


def figures(metrics: bytes) -> tuple[float, tuple[float, ...]]:
    """Requests, and what moves while there are any."""
    sums: dict[bytes, float] = defaultdict(float)
    for name, value in _GAUGE.findall(metrics):
        sums[name] += float(value)
    requests = sums.pop(b"num_requests_running", 0.0) + sums.pop(b"num_requests_waiting", 0.0)
    return requests, tuple(sums[name] for name in sorted(sums))
