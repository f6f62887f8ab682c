"""A Snapshot as a few plain lines, for `passerelle status`. Pure."""

from __future__ import annotations

from control.observe.snapshot import Light, Snapshot

UNKNOWN = "–"


def status_lines(snap: Snapshot) -> list[str]:
    """Verdict first, then findings with their levers, money, engine, bridge, agents."""
    pod, engine, bridge = snap.pod, snap.engine, snap.bridge
    simulated = " (simulated)" if engine.simulated else ""
    lines = [f"{snap.verdict.value.upper()}  pod {pod.id} {pod.state}  engine {engine.state}{simulated}"]
    for finding in snap.findings:
        lines += [f"  {finding.title}: {finding.detail}", f"    lever: {finding.lever}  ({finding.doc})"]
    budget = f" of {pod.budget:.2f} $" if pod.budget is not None else ""
    lines.append(f"  money   {_of(pod.cost_per_hour, '.2f')} $/h   so far {_of(pod.cost_accrued, '.4f')} ${budget}")
    lines.append(
        f"  engine  running {_of(engine.running)}   waiting: capacity {_of(engine.waiting.capacity)},"
        f" deferred {_of(engine.waiting.deferred)}   KV {_of(engine.kv_usage, '.0%')}"
        f"   preempted {_of(engine.preemptions)}   restarts {_of(engine.restarts)}"
    )
    lines.append(
        f"  rates   decode {_of(engine.decode_tok_s, '.0f')} tok/s   prefill {_of(engine.prefill_tok_s, '.0f')} tok/s"
        f" computed, {_of(engine.cached_tok_s, '.0f')} cached   cache hits {_of(engine.cache_hit_rate, '.0%')}"
    )
    lines.append(
        f"  bridge  clients {_of(bridge.clients)}   turns {_of(bridge.turns)}   upstreams {_of(bridge.upstreams)}"
        f"   orphans {_of(bridge.orphans)}   restarts {_of(bridge.restarts)}"
    )
    for agent in snap.agents:
        lines.append(
            f"  agent   {agent.session[:8]}/{agent.agent[:8]:<8} {agent.phase:<10} in {_of(agent.input_tokens)}"
            f"  cached {_of(agent.cached_tokens)}  out {_of(agent.output_tokens)}  {_of(agent.tok_s, '.0f')} tok/s"
            f"  age {_of(agent.age_s, '.0f')} s"
        )
    lines.append("  lights  " + "   ".join(_light(light) for light in snap.lights))
    return lines


def _light(light: Light) -> str:
    return f"{light.name} {light.state}" + ("" if light.age_s is None else f" {light.age_s:.0f} s")


def _of(value: float | None, form: str = "") -> str:
    return UNKNOWN if value is None else format(value, form)
