"""The Snapshot of a pod of which nothing is known yet: what is on screen before the first poll. Pure."""

from __future__ import annotations

from control.models import PodId, PodState
from control.observe.snapshot import (
    BridgeView,
    EngineView,
    Light,
    LightName,
    PodView,
    Snapshot,
    Totals,
    Verdict,
    Waiting,
)

_LIGHTS: tuple[LightName, ...] = ("provider", "port", "bridge", "scrape", "tokens")


def blank(pod_id: PodId) -> Snapshot:
    """Everything not known."""
    pod = PodView(pod_id, "", PodState.UNKNOWN, None, None, None, None, None, None, None, False, (), None)
    engine = EngineView(
        state="unknown", model=None, version=None, simulated=None, max_model_len=None, max_num_seqs=None, running=None,
        waiting=Waiting(None, None), kv_usage=None, kv_tokens=None, prefill_tok_s=None, cached_tok_s=None,
        decode_tok_s=None, cache_hit_rate=None, ttft_p50_s=None, itl_p50_s=None, preemptions=None, restarts=None,
        totals=Totals(None, None, None, None, None, None), prefill_window_s=None, decode_window_s=None,
        scrape_age_s=None,
    )  # fmt: skip
    bridge = BridgeView(None, None, None, None, None, None, None, None, None, None)
    lights = tuple(Light(name, "unknown", None) for name in _LIGHTS)
    return Snapshot(0.0, Verdict.UNKNOWN, (), pod, engine, bridge, (), lights, None, None)
