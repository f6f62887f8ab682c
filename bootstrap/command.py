"""PodSpec -> argv and environment of the engine and of the bridge. Pure.

What the spec leaves out is left out of the engine's flags too: no default of ours is forced on vLLM.
"""

import json
from collections.abc import Mapping

from bootstrap.spec import PodSpec

TOKENS = ("PASSERELLE_CLIENT_TOKEN", "PASSERELLE_OPERATOR_TOKEN")
_HUB_SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
# It can stop and terminate its own pod, and is of no use to engine or bridge (RunPod, pod environment variables).
_PROVIDER_SECRETS = ("RUNPOD_API_KEY",)


def engine_argv(spec: PodSpec, vllm: tuple[str, ...], port: int) -> tuple[str, ...]:
    """The engine's whole command line. `vllm` is the program and whatever comes before `serve`."""
    serve, model = spec.serve, spec.served
    flags: dict[str, object] = {
        "revision": model.revision,
        "max-model-len": serve.context if model.context is None else model.context,
        "max-num-seqs": serve.concurrency,
        "max-num-batched-tokens": serve.batched_tokens,
        "gpu-memory-utilization": serve.memory_utilization,
        "kv-cache-memory-bytes": serve.kv_cache_bytes,
        "kv-cache-dtype": None if serve.kv_dtype == "auto" else serve.kv_dtype,
        "block-size": serve.block_size,
        "num-gpu-blocks-override": serve.num_gpu_blocks,
        "tool-call-parser": model.tool_parser,
        "reasoning-parser": model.reasoning_parser,
        "speculative-config": _json(dict(model.speculative)) if model.speculative else None,
        "limit-mm-per-prompt": None if serve.images is None else _json({"image": serve.images}),
        "enable-prefix-caching": serve.prefix_caching,
        "async-scheduling": serve.async_scheduling,
        "enable-auto-tool-choice": True if model.tool_parser else None,
        "enable-prompt-tokens-details": True,
    }
    return (
        *(*vllm, "serve", model.repo, "--host", "127.0.0.1", "--port", str(port)),
        *("--served-model-name", *model.names),
        *(part for name, value in flags.items() for part in _flag(name, value)),
        *(*model.args, *serve.extra_args),
    )


def engine_env(spec: PodSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """What bootstrap inherited, without our own variables and the provider's key, then [serve] env."""
    # HF_HUB_OFFLINE is dropped: an image that sets it could never download a model. [serve] env may set it.
    return {**_kept(inherited, "HF_HUB_OFFLINE", *_PROVIDER_SECRETS), **dict(spec.serve.env)}


def bridge_env(spec: PodSpec, inherited: Mapping[str, str], fd: int, engine_url: str, control: str) -> dict[str, str]:
    """The bridge faces the internet: its two tokens, no other secret. `control` is the path of bootstrap's socket."""
    return {
        **_kept(inherited, *_HUB_SECRETS, *_PROVIDER_SECRETS),
        **{name: inherited[name] for name in TOKENS},
        "PASSERELLE_LISTEN_FD": str(fd),
        "PASSERELLE_ENGINE_URL": engine_url,
        "PASSERELLE_BOOTSTRAP_SOCKET": control,
        "PASSERELLE_MODEL_NAMES": _json(list(spec.served.names)),
        "PASSERELLE_PING_SECONDS": f"{spec.bridge.ping_seconds:g}",
        "PASSERELLE_MAX_STREAMS": str(spec.bridge.max_streams),
        "PASSERELLE_EFFORT": _json(spec.bridge.effort._asdict()),
        "PASSERELLE_UNKNOWN_MODEL": spec.bridge.unknown_model,
    }


def _kept(inherited: Mapping[str, str], *dropped: str) -> dict[str, str]:
    gone = {*dropped, *(name for name in inherited if name.startswith("PASSERELLE_"))}
    return {name: value for name, value in inherited.items() if name not in gone} | {"PYTHONUNBUFFERED": "1"}


def _flag(name: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, bool):
        return (f"--{name}" if value else f"--no-{name}",)
    return (f"--{name}", str(value))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
