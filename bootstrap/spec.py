"""pod.toml -> PodSpec, strictly: an unknown key, a wrong type or a bad value is an error with its line. Pure.

The schema is SECTIONS: one table of checks per section. Defaults are those of the dataclasses; a None leaves the
matter to vLLM. docs/config.md describes every key.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bootstrap import checks
from bootstrap.checks import Check, Pairs
from bootstrap.toml_reader import Reader
from bootstrap.toml_reader import SpecError as SpecError


@dataclass(frozen=True, slots=True)
class Serve:
    """[serve]: which model is served, and the engine's limits."""

    model: str
    context: int | None = None
    concurrency: int | None = None
    batched_tokens: int | None = None
    memory_utilization: float | None = None
    kv_cache_bytes: int | None = None
    kv_dtype: str = "auto"
    prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    images: int | None = None
    block_size: int | None = None
    num_gpu_blocks: int | None = None
    extra_args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """[models.<key>]: one model that can be served. `context`, where set, wins over that of [serve]."""

    repo: str
    names: tuple[str, ...]
    revision: str | None = None
    context: int | None = None
    args: tuple[str, ...] = ()
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    speculative: Pairs = ()


@dataclass(frozen=True, slots=True)
class Effort:
    """[bridge.effort]: tokens of thinking per effort of the request; `max` has no budget."""

    low: int = 1024
    medium: int = 4096
    high: int = 16_384
    xhigh: int = 32_768


@dataclass(frozen=True, slots=True)
class Bridge:
    mode: Literal["translate", "native", "off"] = "translate"
    ping_seconds: float = 15.0
    max_streams: int = 256
    guard: Literal["off", "warn", "refuse"] = "off"
    unknown_model: Literal["serve", "refuse"] = "serve"
    effort: Effort = field(default_factory=Effort)


@dataclass(frozen=True, slots=True)
class Swap:
    on_request: bool = False
    dwell_minutes: float = 10.0
    strategy: Literal["restart", "sleep"] = "restart"


@dataclass(frozen=True, slots=True)
class Idle:
    stop_after_minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Log:
    mirror: str | None = None
    every_seconds: float = 25.0


@dataclass(frozen=True, slots=True)
class Preload:
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Desktop:
    enabled: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class PodSpec:
    """One whole pod.toml, checked."""

    serve: Serve
    models: Mapping[str, Model]
    serial: int = 0
    bridge: Bridge = field(default_factory=Bridge)
    swap: Swap = field(default_factory=Swap)
    idle: Idle = field(default_factory=Idle)
    log: Log = field(default_factory=Log)
    preload: Preload = field(default_factory=Preload)
    desktop: Desktop = field(default_factory=Desktop)
    code: Code = field(default_factory=Code)

    @property
    def served(self) -> Model:
        """The model that [serve] names."""
        return self.models[self.serve.model]


_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")

_MODEL: dict[str, Check] = {
    "repo": checks.text,
    "revision": checks.text,
    "names": checks.names,
    "context": checks.whole(1),
    "args": checks.args,
    "reasoning_parser": checks.text,
    "tool_parser": checks.text,
    "speculative": checks.pairs,
}

SECTIONS: dict[str, tuple[type, dict[str, Check]]] = {
    "serve": (
        Serve,
        {
            "model": checks.text,
            "context": checks.whole(1),
            "concurrency": checks.whole(1),
            "batched_tokens": checks.whole(1),
            "memory_utilization": checks.number(0, 1),
            "kv_cache_bytes": checks.whole(1),
            "kv_dtype": checks.text,
            "prefix_caching": checks.flag,
            "async_scheduling": checks.flag,
            "images": checks.whole(0),
            "block_size": checks.whole(1),
            "num_gpu_blocks": checks.whole(1),
            "extra_args": checks.args,
            "env": checks.env,
        },
    ),
    "bridge": (
        Bridge,
        {
            "mode": checks.one_of("translate", "native", "off"),
            "ping_seconds": checks.number(0),
            "max_streams": checks.whole(1),
            "guard": checks.one_of("off", "warn", "refuse"),
            "unknown_model": checks.one_of("serve", "refuse"),
        },
    ),
    "bridge.effort": (Effort, {name: checks.whole(1) for name in ("low", "medium", "high", "xhigh")}),
    "swap": (
        Swap,
        {"on_request": checks.flag, "dwell_minutes": checks.number(0), "strategy": checks.one_of("restart", "sleep")},
    ),
    "idle": (Idle, {"stop_after_minutes": checks.number(0)}),
    "log": (Log, {"mirror": checks.mirror, "every_seconds": checks.number(0)}),
    "preload": (Preload, {"models": checks.texts}),
    "desktop": (Desktop, {"enabled": checks.flag}),
    "code": (Code, {"sha256": checks.text}),
}
"""Section -> its dataclass and the check of each of its keys; [models.<key>] is apart, since its keys are free."""


def parse(text: str) -> PodSpec:
    """The whole file, checked. Errors: SpecError, the first one met."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _TOML_PLACE.search(str(error))
        line = int(at[1]) if at and at[1] else max(1, len(text.splitlines()))
        raise SpecError(f"not TOML: {_TOML_PLACE.sub('', str(error))}", line) from error
    except (ValueError, RecursionError) as error:
        raise SpecError("not TOML: a number of thousands of digits, or thousands of nested brackets") from error
    reader = Reader(text)
    reader.refuse_unknown((), document, ["serial", "models", *(name for name in SECTIONS if "." not in name)])
    effort = _section(
        reader, "bridge.effort", reader.table(("bridge",), reader.table((), document, "bridge"), "effort")
    )
    spec = PodSpec(
        serial=reader.value((), "serial", document.get("serial", 0), checks.whole(0)),
        models=_models(reader, reader.table((), document, "models")),
        bridge=_section(reader, "bridge", reader.table((), document, "bridge"), effort=effort),
        **{
            name: _section(reader, name, reader.table((), document, name))
            for name in ("serve", "swap", "idle", "log", "preload", "desktop", "code")
        },
    )
    _check_across(spec, reader)
    return spec


def _section(reader: Reader, name: str, table: Mapping[str, Any], **parts: Any) -> Any:
    """One section by its row of SECTIONS; `parts` are its sub-sections, read already."""
    kind, by_key = SECTIONS[name]
    return reader.section(kind, tuple(name.split(".")), table, by_key, parts)


def _models(reader: Reader, table: Mapping[str, Any]) -> dict[str, Model]:
    models = {}
    for key in table:
        path, own = ("models", key), reader.table(("models",), table, key)
        named = {"names": [key], **own}
        models[key] = reader.section(Model, path, named, _MODEL, {})
    return models


def _check_across(spec: PodSpec, reader: Reader) -> None:
    """What no single key can tell."""
    serve, known = spec.serve, ", ".join(spec.models) or "none"
    if serve.model not in spec.models:
        near = difflib.get_close_matches(serve.model, spec.models, n=1)
        message = f'"model" in [serve] is "{serve.model}", and there is no [models.{serve.model}] (there is: {known})'
        raise reader.error(message, ("serve", "model"), near[0] if near else None)
    if serve.memory_utilization is not None and serve.kv_cache_bytes is not None:
        message = '"memory_utilization" and "kv_cache_bytes" in [serve] exclude each other; keep one'
        raise reader.error(message, ("serve", "kv_cache_bytes"))
    owners: dict[str, str] = {}
    for key, model in spec.models.items():
        for name in model.names:
            if owners.setdefault(name, key) != key:
                message = f'the name "{name}" belongs to [models.{owners[name]}] already'
                raise reader.error(message, ("models", key, "names"))
    for key in spec.preload.models:
        if key not in spec.models:
            message = f'"models" in [preload] has "{key}", and there is no [models.{key}] (there is: {known})'
            raise reader.error(message, ("preload", "models"))


def not_in_force(spec: PodSpec) -> tuple[str, ...]:
    """Settings that are read and checked, and that this version of the pod does not act on: to be said aloud."""
    return tuple(
        name
        for name, is_set in (
            ("[bridge] mode", spec.bridge.mode != "translate"),
            ("[bridge] guard", spec.bridge.guard != "off"),
            ("[swap] on_request", spec.swap.on_request),
            ("[idle] stop_after_minutes", spec.idle.stop_after_minutes is not None),
            ("[log] mirror", spec.log.mirror is not None),
            ("[preload] models", bool(spec.preload.models)),
            ("[desktop] enabled", spec.desktop.enabled),
            ("[code] sha256", spec.code.sha256 is not None),
        )
        if is_set
    )
