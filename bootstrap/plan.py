"""(running, wanted) -> Plan: what a publish would restart. Pure; the pod and the operator's side compute the same.

Commands and environments are compared, not settings: a change that does nothing restarts nothing.
"""

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
    if running.code != wanted.code or (gpu_count is not None and gpus(wanted) > max(gpu_count, gpus(running))):
        action: Action = "needs a new pod"
    elif _engines(running, wanted):
        action = "restart engine"
    elif running.serve.model != wanted.serve.model:
        action = "swap model"
    else:
        action = "reload bridge" if bridge else "nothing"
    return Plan(action, tuple(_differences(running, wanted)), bridge)


def _engines(running: PodSpec, wanted: PodSpec) -> bool:
    """Is there a model whose engine, kept, would not be what is wanted?"""
    kept = {running.serve.model, wanted.serve.model} if not sleeps(running) else running.models
    return any(_engine(running, key) != _engine(wanted, key) for key in kept if key in running.models) and (
        running.serve.model in wanted.models or running.serve.model == wanted.serve.model
    )


def _engine(spec: PodSpec, key: str) -> Any:
    if key not in spec.models:
        return None
    return engine_argv(spec, key, (), 0), engine_env(spec, key, {}), dict(spec.models[key].patches)


def _differences(running: PodSpec, wanted: PodSpec) -> list[str]:
    before, after = _settings(running), _settings(wanted)
    return [
        f"{name}: {_shown(before.get(name))} -> {_shown(after.get(name))}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]


def _settings(spec: PodSpec) -> dict[str, Any]:
    """Every setting but the serial by its name as an error would say it; variables of the engine one by one."""
    found: dict[str, Any] = {}
    for path in ROWS:
        for key in spec.models if "*" in path else [""]:
            section: Any = spec
            for part in path[:-1]:
                section = section[key] if part == "*" else getattr(section, part)
            found[f"[{'.'.join(path[:-1]).replace('*', key)}] {path[-1]}"] = getattr(section, path[-1])
    return {name: value for name, value in found.items() if path[0] != "serial"}


def _shown(value: Any) -> str:
    return "(left out)" if value in (None, ()) else str(value).lower() if isinstance(value, bool) else f"{value}"
