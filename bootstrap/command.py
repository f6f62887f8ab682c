"""PodSpec -> argv and environment of the engine, for any of its models, and of the bridge. Pure."""

# What the spec leaves out is left out of the engine's flags too: no default of ours is forced on vLLM.

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from bootstrap.spec import ROWS, PodSpec

TOKENS = ("PASSERELLE_CLIENT_TOKEN", "PASSERELLE_OPERATOR_TOKEN")
_HUB_SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
# It can stop and terminate its own pod, and is of no use to engine or bridge (RunPod, pod environment variables).
_PROVIDER_SECRET = "RUNPOD_API_KEY"


def engine_argv(spec: PodSpec, key: str, vllm: tuple[str, ...], port: int) -> tuple[str, ...]:
    """The whole command line of the engine of one model. `vllm` is the program and whatever comes before `serve`."""
    model, flags = spec.models[key], dict[str, Any]()
    for row, value in _said(spec, key, "flag"):
        if "json" in row:
            flags.setdefault(row["flag"], {})[row["json"]] = value
        elif isinstance(row["flag"], list):
            flags[row["flag"][0]] = value
        else:
            flags |= {row["flag"]: value} | ({row["with"]: True} if "with" in row else {})
    flags |= {"speculative-config": _speculation(spec, key)} | ({"enable-sleep-mode": True} if sleeps(spec) else {})
    return (
        *(*vllm, "serve", model.repo, "--host", "127.0.0.1", "--port", str(port)),
        *("--served-model-name", *spec.names(key, in_force=key)),
        *(part for name, value in flags.items() for part in _flag(name, value)),
        *("--enable-prompt-tokens-details", *model.args, *spec.serve.extra_args),
    )


def engine_env(spec: PodSpec, key: str, inherited: Mapping[str, str], *, peer_to_peer: bool = True) -> dict[str, str]:
    """What bootstrap inherited, but our own variables and the provider's key; then the settings', then [serve] env."""
    # peer_to_peer: what preflight saw of the GPUs; NCCL hangs without a word where it tries and it cannot.
    # HF_HUB_OFFLINE is dropped: an image that sets it could never download a model. [serve] env may set it.
    env = _kept(inherited, "HF_HUB_OFFLINE", _PROVIDER_SECRET)
    if gpus(spec) > 1 and not peer_to_peer:
        env["NCCL_P2P_DISABLE"] = "1"
    env |= {row["env"]: row["env_words"][str(value).lower()] for row, value in _said(spec, key, "env")}
    if sleeps(spec):
        env["VLLM_SERVER_DEV_MODE"] = "1"  # it has the routes to sleep and wake, on loopback only
    return env | dict(spec.serve.env)


def bridge_env(spec: PodSpec, inherited: Mapping[str, str], fd: int, engine_url: str, control: str) -> dict[str, str]:
    """The bridge faces the internet: its two tokens, no other secret. `control` is the path of bootstrap's socket."""
    bridge = spec.bridge
    return {
        **_kept(inherited, *_HUB_SECRETS, _PROVIDER_SECRET),
        **{name: inherited[name] for name in TOKENS if name in inherited},
        "PASSERELLE_LISTEN_FD": str(fd),
        "PASSERELLE_ENGINE_URL": engine_url,
        "PASSERELLE_BOOTSTRAP_SOCKET": control,
        "PASSERELLE_MODEL_NAMES": _json(spec.names(spec.serve.model, in_force=spec.serve.model)),
        "PASSERELLE_MODE": bridge.mode,
        "PASSERELLE_GUARD": bridge.guard,
        "PASSERELLE_SWAP": "on" if spec.swap.on_request else "off",
        "PASSERELLE_PING_SECONDS": f"{bridge.ping_seconds:g}",
        "PASSERELLE_MAX_STREAMS": str(bridge.max_streams),
        "PASSERELLE_EFFORT": _json(asdict(bridge.effort) if bridge.effort_budgets else {}),
        "PASSERELLE_UNKNOWN_MODEL": bridge.unknown_model,
    }


def gpus(spec: PodSpec) -> int:
    """How many GPUs an engine of this spec takes."""
    return (spec.serve.tensor_parallel or 1) * (spec.serve.data_parallel or 1)


def sleeps(spec: PodSpec) -> bool:
    """Are engines kept side by side, all but one asleep?"""
    return spec.swap.strategy == "sleep" and len(spec.models) > 1


# The settings of [serve], then of the model, that have this column and are not left to vLLM.
def _said(spec: PodSpec, key: str, column: str) -> Iterator[tuple[Mapping[str, Any], Any]]:
    sections = {"serve": spec.serve, "models": spec.models[key]}
    for path, row in ROWS.items():
        value = getattr(sections[path[0]], path[-1]) if column in row else None
        if value not in (None, row.get("default")):
            yield row, value


# What --speculative-config says; None for no speculation.
def _speculation(spec: PodSpec, key: str) -> dict[str, Any] | None:
    own, method = dict(spec.models[key].speculative), spec.serve.speculation
    if method == "auto":
        method = own.get("method", "own") if own and spec.serve.speculation_auto else "off"
    if method == "off":
        return None
    assumed = {row["draft"]: row["assumed"][method] for row in ROWS.values() if method in row.get("assumed", {})}
    said = {row["draft"]: value for row, value in _said(spec, key, "draft") if method in row["methods"]}
    return (own if own.get("method", "own") == method else {"method": method, **assumed}) | said


def _kept(inherited: Mapping[str, str], *dropped: str) -> dict[str, str]:
    gone = {*dropped, *(name for name in inherited if name.startswith("PASSERELLE_"))}
    return {name: value for name, value in inherited.items() if name not in gone} | {"PYTHONUNBUFFERED": "1"}


def _flag(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, bool):
        return (f"--{name}" if value else f"--no-{name}",)
    if isinstance(value, tuple):
        return (f"--{name}", *value)
    return (f"--{name}", _json(value) if isinstance(value, dict) else str(value))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
