"""(running, wanted) -> Plan: what a publish would restart. Pure; the pod and the operator's side compute the same."""

# Commands and environments are compared, not settings: a change that does nothing restarts nothing.

from dataclasses import dataclass
from typing import Any, Literal

from bootstrap.command import bridge_env, engine_argv, engine_env, gpus, sleeps
from bootstrap.spec import ROWS, PodSpec

Action = Literal["nothing", "reload bridge", "swap model", "restart engine", "needs a new pod"]


@dataclass(frozen=True, slots=True)
class Plan:
    action: Action  # the costliest thing that must be done
    reasons: tuple[str, ...]  # every setting that differs, as "[serve] images: 4 -> 8"
    reloads_bridge: bool = False  # beside a swap or a restart of the engine too


def plan(running: PodSpec, wanted: PodSpec, gpu_count: int | None = None) -> Plan:
    """What must be done so that `wanted` is in force. gpu_count: what the pod has, where that is known."""
    bridge = bridge_env(running, {}, 0, "", "") != bridge_env(wanted, {}, 0, "", "")
    kept = running.models if sleeps(running) else (running.serve.model, wanted.serve.model)
    both = [key for key in kept if key in running.models and key in wanted.models]
    action: Action = "reload bridge" if bridge else "nothing"
    if running.code != wanted.code or (gpu_count is not None and gpus(wanted) > max(gpu_count, gpus(running))):
        action = "needs a new pod"
    elif any(_engine(running, key) != _engine(wanted, key) for key in both):
        action = "restart engine"
    elif running.serve.model != wanted.serve.model:
        action = "swap model"
    before, after = _settings(running), _settings(wanted)
    differing = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    shown = [f"{name}: {_shown(name, before)} -> {_shown(name, after)}" for name in differing]
    return Plan(action, tuple(shown), bridge)


def _engine(spec: PodSpec, key: str) -> object:
    return engine_argv(spec, key, (), 0), engine_env(spec, key, {}), spec.models[key].patches


# Every setting but the serial, by its name as an error would say it.
def _settings(spec: PodSpec) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for section, *between, name in [path for path in ROWS if len(path) > 1]:
        of = getattr(spec, section)
        for key, table in of.items() if section == "models" else [("effort", of.effort)] if between else [("", of)]:
            found[f"[{section}{key and '.'}{key}] {name}"] = getattr(table, name)
    return found


def _shown(name: str, settings: dict[str, Any]) -> str:
    value = settings.get(name)
    if value in (None, ()):
        return "(left out)"
    if name == "[serve] env":
        return ", ".join(dict(value))  # a value may be a secret
    return str(value).lower() if isinstance(value, bool) else str(value)
