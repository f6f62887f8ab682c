"""PodSpec -> argv and environment of the engine and of the bridge. Pure.

What the spec leaves out is left out of the engine's flags too: no default of ours is forced on vLLM.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bootstrap.spec import PodSpec

OURS = "PASSERELLE_"
_HUB_SECRETS = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
_PROVIDER_SECRETS = frozenset({"RUNPOD_API_KEY"})
"""Can stop and terminate its own pod: of no use to engine or bridge (RunPod, pod environment variables)."""


def engine_argv(spec: PodSpec, vllm: tuple[str, ...], port: int) -> tuple[str, ...]:
    """The engine's whole command line. `vllm` is the program and whatever comes before `serve`."""
    serve, model = spec.serve, spec.served
    valued: tuple[tuple[str, object], ...] = (
        ("--revision", model.revision),
        ("--max-model-len", serve.context if model.context is None else model.context),
        ("--max-num-seqs", serve.concurrency),
        ("--max-num-batched-tokens", serve.batched_tokens),
        ("--gpu-memory-utilization", serve.memory_utilization),
        ("--kv-cache-memory-bytes", serve.kv_cache_bytes),
        ("--kv-cache-dtype", None if serve.kv_dtype == "auto" else serve.kv_dtype),
        ("--block-size", serve.block_size),
        ("--num-gpu-blocks-override", serve.num_gpu_blocks),
        ("--tool-call-parser", model.tool_parser),
        ("--reasoning-parser", model.reasoning_parser),
        ("--speculative-config", _json(dict(model.speculative)) if model.speculative else None),
        ("--limit-mm-per-prompt", None if serve.images is None else _json({"image": serve.images})),
    )
    switches = (
        _switch("enable-prefix-caching", serve.prefix_caching),
        _switch("async-scheduling", serve.async_scheduling),
        ("--enable-auto-tool-choice",) if model.tool_parser else (),
        ("--enable-prompt-tokens-details",),
    )
    return (
        *vllm,
        *("serve", model.repo, "--host", "127.0.0.1", "--port", str(port)),
        *("--served-model-name", *model.names),
        *(part for flag, value in valued if value is not None for part in (flag, str(value))),
        *(part for switch in switches for part in switch),
        *model.args,
        *serve.extra_args,
    )


def engine_env(spec: PodSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """What bootstrap inherited, without our own variables and the provider's key, then [serve] env.

    HF_HUB_OFFLINE is dropped too: an image that sets it could never download a model. [serve] env may set it.
    """
    dropped = {"HF_HUB_OFFLINE", *_PROVIDER_SECRETS}
    kept = {name: value for name, value in inherited.items() if not name.startswith(OURS) and name not in dropped}
    return {**kept, "PYTHONUNBUFFERED": "1", **dict(spec.serve.env)}


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the bridge must be told beyond the spec."""

    listen_fd: int
    engine_url: str
    bootstrap_socket: str
    client_token: str = dataclasses.field(repr=False)
    operator_token: str = dataclasses.field(repr=False)


def bridge_env(spec: PodSpec, inherited: Mapping[str, str], wiring: Wiring) -> dict[str, str]:
    """The bridge faces the internet: it gets its two tokens, and no other secret that bootstrap holds."""
    dropped = _HUB_SECRETS | _PROVIDER_SECRETS
    kept = {name: value for name, value in inherited.items() if not name.startswith(OURS) and name not in dropped}
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        "PASSERELLE_LISTEN_FD": str(wiring.listen_fd),
        "PASSERELLE_ENGINE_URL": wiring.engine_url,
        "PASSERELLE_BOOTSTRAP_SOCKET": wiring.bootstrap_socket,
        "PASSERELLE_CLIENT_TOKEN": wiring.client_token,
        "PASSERELLE_OPERATOR_TOKEN": wiring.operator_token,
        "PASSERELLE_MODEL_NAMES": _json(list(spec.served.names)),
        "PASSERELLE_PING_SECONDS": f"{spec.bridge.ping_seconds:g}",
        "PASSERELLE_MAX_STREAMS": str(spec.bridge.max_streams),
        "PASSERELLE_EFFORT": _json(dataclasses.asdict(spec.bridge.effort)),
        "PASSERELLE_UNKNOWN_MODEL": spec.bridge.unknown_model,
    }


def _switch(name: str, value: bool | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (f"--{name}",) if value else (f"--no-{name}",)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
