"""Hand-written Snapshots, one per thing that can be wrong, and a Session that plays a list of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bootstrap.report import Gpu, LogLine
from console.blank import blank
from control.models import PodId, PodState
from control.observe.snapshot import (
    AgentPhase,
    AgentView,
    BridgeView,
    EngineView,
    Finding,
    Light,
    LightName,
    LightState,
    PodView,
    Point,
    Snapshot,
    Totals,
    Verdict,
    Waiting,
)

AT = 1_796_132_767.0
POD = PodId("udpfa0l4z65m09")

GPU = Gpu(0, "NVIDIA RTX PRO 6000", 134_000.0, 143_360.0, 97.0, 612.0, 71.0)


def lights(
    *ages: float | None, bad: dict[LightName, str] | None = None, watch: Sequence[LightName] = ()
) -> tuple[Light, ...]:
    names: tuple[LightName, ...] = ("provider", "port", "bridge", "scrape", "tokens")
    ages = ages or (2.0, 0.4, 0.4, 0.5, 0.0)
    bad = bad or {}
    out = []
    for name, age in zip(names, ages, strict=True):
        state: LightState = "bad" if name in bad else "watch" if name in watch else "good"
        out.append(Light(name, "unknown" if age is None and state == "good" else state, age, bad.get(name, "")))
    return tuple(out)


def pod(**changes: object) -> PodView:
    base = PodView(
        id=POD, provider="local", state=PodState.RUNNING, gpu="RTX PRO 6000", url="http://127.0.0.1:8080",
        cost_per_hour=1.69, cost_accrued=3.7812, disk_per_day=0.02, cuda="13.0", driver="580.95.05",
        gpu_absent=False, gpus=(GPU,), uptime_s=8054.0,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def engine(**changes: object) -> EngineView:
    base = EngineView(
        state="serving", model="qwen3-coder", version="0.33.0", simulated=False, max_model_len=131_072, max_num_seqs=16,
        running=6, waiting=Waiting(0, 0), kv_usage=0.66, kv_tokens=750_000, prefill_tok_s=5230.0, cached_tok_s=47_000.0,
        decode_tok_s=164.0, cache_hit_rate=0.893, ttft_p50_s=1.9, itl_p50_s=0.034, preemptions=0, restarts=0,
        totals=Totals(9_420_000, 84_100_000, 1_204_000, 0, 93_000_000, 84_100_000), prefill_window_s=30.0,
        decode_window_s=5.0, scrape_age_s=0.5,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def bridge(**changes: object) -> BridgeView:
    base = BridgeView(clients=6, turns=6, upstreams=6, orphans=0, pings=12, refused=0, restarts=1, draining=0,
                      completed=412, failed=3)  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def agent(session: str, name: str, phase: AgentPhase, **changes: object) -> AgentView:
    base = AgentView(
        session=session, agent=name, phase=phase, input_tokens=118_402, cached_tokens=114_850, output_tokens=812,
        tok_s=27.1, ttft_s=2.1, age_s=31.0, last_byte_age_s=0.04, stalled=False, last_stop="tool_use",
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def _pending(**changes: object) -> dict[str, object]:
    return {
        "cached_tokens": None, "output_tokens": 0, "tok_s": None, "ttft_s": None, "last_byte_age_s": None, **changes,
    }  # fmt: skip


SIX = (
    agent("a3f19c02", "main", "text"),
    agent("a3f19c02", "explore", "prefill", **_pending(input_tokens=131_088, age_s=18.0)),
    agent("a3f19c02", "tests", "thinking", input_tokens=96_240, cached_tokens=39_458, output_tokens=64, tok_s=26.0),
    agent("77c0d4e1", "main", "tool", input_tokens=64_913, cached_tokens=64_264, output_tokens=133, tok_s=26.4,
          ttft_s=0.41, age_s=5.0),
    agent("77c0d4e1", "reviewer", "text", input_tokens=88_120, cached_tokens=79_308, output_tokens=1204, tok_s=27.9),
    agent("b81e20aa", "main", "text", input_tokens=71_002, cached_tokens=70_292, output_tokens=40, tok_s=28.3),
)  # fmt: skip

LOG = (
    LogLine(812, AT - 58, "bootstrap", "info", "config #41 applied: nothing to restart"),
    LogLine(813, AT - 51, "engine", "info", "Avg prompt throughput: 5 230.1 tokens/s, Avg generation throughput: "
            "164.0 tokens/s, Running: 6 reqs, Waiting: 0 reqs, GPU KV cache usage: 66.0%"),
    LogLine(814, AT - 44, "bridge", "info", "77c0d4e1/main POST /v1/messages 200 in 18.2 s, 1 133 tokens"),
    LogLine(815, AT - 31, "bridge", "info", "a3f19c02/main POST /v1/messages, 118 402 tokens in"),
    LogLine(816, AT - 22, "engine", "warning", "Triton kernel JIT compilation during inference: fused_moe_kernel"),
    LogLine(817, AT - 18, "bridge", "info", "a3f19c02/explore POST /v1/messages, 131 088 tokens in"),
    LogLine(818, AT - 9, "bridge", "error", "b81e20aa/main upstream answered 400: context length exceeded"),
    LogLine(819, AT - 5, "bridge", "info", "b81e20aa/main POST /v1/messages, 71 002 tokens in"),
)  # fmt: skip


def history(at: float = AT, waiting: int = 0, points: int = 300) -> tuple[Point, ...]:
    """Five minutes that look like agents at work, with a hole where the pod was not seen and one mark."""
    out = []
    for index in range(points):
        wave = 0.5 + 0.5 * math.sin(index / 23)
        hole = 118 <= index < 132
        out.append(
            Point(
                at=at - points + 1 + index,
                prefill_tok_s=None if hole else 400.0 + 5600.0 * (index % 61 < 14),
                decode_tok_s=None if hole else 90.0 + 80.0 * wave,
                cache_hit_rate=None if hole else (0.42 if index % 61 < 9 else 0.91 + 0.05 * wave),
                kv_usage=None if hole else 0.25 + 0.41 * index / points,
                waiting=None if hole else (waiting if index > 210 else 0),
                mark="bridge restart" if index == 170 else "",
            )
        )
    return tuple(out)


def healthy(at: float = AT) -> Snapshot:
    return Snapshot(
        at=at, verdict=Verdict.HEALTHY, findings=(), pod=pod(), engine=engine(), bridge=bridge(), agents=SIX,
        lights=lights(), config_serial=41, config_error=None, log=LOG, history=history(at),
    )  # fmt: skip


def capacity(at: float = AT) -> Snapshot:
    """Three of six wait for KV blocks; the local pod's simulated engine, on a machine without a GPU."""
    waits: dict[str, object] = _pending(age_s=48.0, input_tokens=None, last_input_tokens=131_088)
    agents = (
        SIX[0],
        agent("a3f19c02", "explore", "waiting", **waits),
        agent("a3f19c02", "tests", "prefill", **_pending(input_tokens=96_240, age_s=12.0)),
        SIX[3],
        agent("77c0d4e1", "reviewer", "waiting", **{**waits, "age_s": 31.0}),
        agent("b81e20aa", "main", "waiting", **{**waits, "age_s": 9.0}),
    )
    finding = Finding(
        "kv-capacity", "warning", "waiting for KV capacity",
        "3 of 6 requests wait; KV cache 94 % of 750 k tokens", "fewer agents, or context 131 072 → 98 304",
        "docs/diagnosis.md#kv-capacity",
    )  # fmt: skip
    second = Finding(
        "cache-miss", "info", "cache hits fell", "41 % of prompt tokens cached over 30 s, 91 % before",
        "look for a header that changes per turn", "docs/diagnosis.md#cache-miss",
    )  # fmt: skip
    return replace(
        healthy(at),
        verdict=Verdict.WARNING,
        findings=(second, finding),
        pod=pod(id="local-7f3a", cost_per_hour=0.74, gpu=None, cuda=None, driver=None, gpus=(), gpu_absent=True),
        engine=engine(simulated=True, version="0.33.0+simulated", running=3, waiting=Waiting(3, 0), kv_usage=0.94,
                      preemptions=2),
        agents=agents,
        history=history(at, waiting=3),
    )  # fmt: skip


def no_gpu(at: float = AT) -> Snapshot:
    base = healthy(at)
    return replace(
        base,
        pod=replace(capacity(at).pod, gpus=()),
        engine=replace(base.engine, simulated=True, version="0.33.0+simulated"),
    )


def unreachable(at: float = AT) -> Snapshot:
    """The bridge has been silent for 42 s; the provider still says RUNNING."""
    finding = Finding(
        "bridge-silent", "critical", "the bridge does not answer",
        "no report for 42 s: connection refused; the provider says RUNNING", "b restarts it; s stops paying", "bridge",
    )  # fmt: skip
    silent = "connection refused"
    return replace(
        healthy(at),
        verdict=Verdict.UNREACHABLE,
        findings=(finding,),
        lights=lights(2.0, 42.0, 42.0, 42.0, 43.0, bad={"port": silent, "bridge": silent, "scrape": "", "tokens": ""}),
        engine=engine(scrape_age_s=42.0),
        history=history(at)[:258],
    )


def wrong_token(at: float = AT) -> Snapshot:
    """The port answers 401: nothing of the pod is known but what its provider says."""
    base = blank(POD)
    return replace(
        base, at=at, verdict=Verdict.CRITICAL, pod=pod(gpus=(), cuda=None, driver=None),
        lights=lights(1.0, 0.3, None, None, None, bad={"bridge": "401: the pod does not take this token"}),
    )  # fmt: skip


def booting(at: float = AT) -> Snapshot:
    base = blank(POD)
    return replace(
        base, at=at, verdict=Verdict.WARNING, pod=pod(uptime_s=95.0, cost_accrued=0.0446),
        engine=replace(base.engine, state="starting", simulated=False, restarts=0),
        bridge=bridge(clients=0, turns=0, upstreams=0, pings=0, restarts=0, completed=0, failed=0),
        lights=lights(2.0, 0.4, 0.4, None, None), config_serial=1,
        log=(LogLine(40, at - 3, "engine", "info", "Loading safetensors checkpoint shards:  42% Completed | 5/12"),),
    )  # fmt: skip


def stopped(at: float = AT) -> Snapshot:
    base = blank(POD)
    return replace(
        base, at=at, verdict=Verdict.STOPPED, pod=pod(state=PodState.EXITED, uptime_s=None, gpus=(), url=None),
        lights=(Light("provider", "good", 1.0), *base.lights[1:]),
    )  # fmt: skip


def unknown(at: float = AT) -> Snapshot:
    return replace(blank(POD), at=at)


def crowd(at: float = AT) -> Snapshot:
    """More agents than any screen holds: forty idle ones, two live, one of them stalled."""
    idle = tuple(
        agent(
            f"{index:08x}", "main", "idle", tok_s=25.0, age_s=60.0 * index, last_byte_age_s=None, last_stop="end_turn"
        )
        for index in range(1, 41)
    )
    stalled = agent("ffff0000", "main", "text", stalled=True, last_byte_age_s=26.0, age_s=140.0)
    failed = agent("eeee0000", "main", "idle", age_s=400.0, last_byte_age_s=None, last_stop="overloaded_error")
    return replace(healthy(at), agents=(*idle, failed, SIX[0], stalled))


STATES: dict[str, Callable[[float], Snapshot]] = {
    "healthy": healthy,
    "capacity": capacity,
    "no-gpu": no_gpu,
    "unreachable": unreachable,
    "wrong-token": wrong_token,
    "booting": booting,
    "stopped": stopped,
    "unknown": unknown,
    "crowd": crowd,
}


@dataclass
class ScriptedSession:
    """Plays its script once. Calls are recorded; `fails` is raised by all of them."""

    script: Sequence[Snapshot]
    pod_id: PodId = POD
    calls: list[str] = field(default_factory=list)
    fails: Exception | None = None

    async def run(self, publish: Callable[[Snapshot], None]) -> None:
        for snap in self.script:
            publish(snap)

    async def stop(self) -> None:
        self._call("stop")

    async def restart_bridge(self) -> None:
        self._call("restart bridge")

    async def start(self) -> None:
        self._call("start")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.fails is not None:
            raise self.fails
