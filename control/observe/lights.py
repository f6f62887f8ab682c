"""The truth ladder: provider, port, bridge, scrape, token progress, each with the age of its last good sign. Pure.

An HTTP 200 is not evidence that an engine lives: only tokens are. So each rung has a light of its own.
"""

from __future__ import annotations

from control.observe.silence import silent_s
from control.observe.snapshot import EngineView, Light, LightName, LightState
from control.observe.state import State

WATCH_S = 3.0
BAD_S = 10.0
PROVIDER_WATCH_S = 15.0
PROVIDER_BAD_S = 60.0
SILENT_WATCH_S = 20.0
SILENT_BAD_S = 60.0


def lights(state: State, engine: EngineView, now: float) -> tuple[Light, ...]:
    """Bottom rung first. Of a stopped pod only the provider is judged: nothing else is there to answer."""
    if engine.state == "stopped":
        rest: tuple[LightName, ...] = ("port", "bridge", "scrape", "tokens")
        off = tuple(Light(name, "unknown", None, "stopped") for name in rest)
        return (_light("provider", state.pod_ok_at, now, PROVIDER_WATCH_S, PROVIDER_BAD_S, state.pod_error or ""), *off)
    return (
        _light("provider", state.pod_ok_at, now, PROVIDER_WATCH_S, PROVIDER_BAD_S, state.pod_error or ""),
        _light("port", state.port_ok_at, now, WATCH_S, BAD_S, _port_detail(state)),
        _light("bridge", state.report_ok_at, now, WATCH_S, BAD_S, state.lost.error if state.lost else ""),
        _light("scrape", state.scrape_ok_at, now, WATCH_S, BAD_S, state.scrape_error or ""),
        _tokens(state, engine, now),
    )


def _port_detail(state: State) -> str:
    return state.lost.error if state.lost and state.lost.kind == "port" else ""


def _light(name: LightName, ok_at: float | None, now: float, watch: float, bad: float, detail: str) -> Light:
    age = None if ok_at is None else now - ok_at
    state: LightState
    if age is None:
        state = "bad" if detail else "unknown"
    elif age < watch:
        state = "good"
    else:
        state = "watch" if age < bad else "bad"
    return Light(name, state, age, detail)


def _tokens(state: State, engine: EngineView, now: float) -> Light:
    """Silence is only a sign while the engine has something to do."""
    age = silent_s(state, now)
    if age is None or engine.running is None:
        return Light("tokens", "unknown", age, "not known")
    busy = engine.running + (engine.waiting.capacity or 0) + (engine.waiting.deferred or 0) > 0
    if not busy:
        return Light("tokens", "unknown", age, "idle")
    if age < SILENT_WATCH_S:
        return Light("tokens", "good", age)
    return Light("tokens", "watch" if age < SILENT_BAD_S else "bad", age, "no token while requests run")
