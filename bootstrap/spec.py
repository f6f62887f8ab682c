"""pod.toml -> PodSpec, strictly: an unknown key, a wrong type or a bad value is an error with its line. Pure.

The tuples are the schema: each key is annotated with its check, and required where it has no default. None leaves
the matter to vLLM. docs/config.md describes every key.
"""

import difflib
import operator
import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from bootstrap import toml_reader as toml
from bootstrap.toml_reader import SpecError as SpecError


class Serve(NamedTuple):
    model: Annotated[str, toml.TEXT]
    context: Annotated[int | None, toml.whole(1)] = None
    concurrency: Annotated[int | None, toml.whole(1)] = None
    batched_tokens: Annotated[int | None, toml.whole(1)] = None
    memory_utilization: Annotated[float | None, toml.number(0, 1)] = None
    kv_cache_bytes: Annotated[int | None, toml.whole(1)] = None
    kv_dtype: Annotated[str, toml.TEXT] = "auto"
    prefix_caching: Annotated[bool | None, toml.FLAG] = None
    async_scheduling: Annotated[bool | None, toml.FLAG] = None
    images: Annotated[int | None, toml.whole(0)] = None
    block_size: Annotated[int | None, toml.whole(1)] = None
    num_gpu_blocks: Annotated[int | None, toml.whole(1)] = None
    extra_args: Annotated[tuple[str, ...], toml.ARGS] = ()
    env: Annotated[tuple[tuple[str, str], ...], toml.ENV] = ()


class Model(NamedTuple):
    """[models.<key>]: one model that can be served. `context`, where set, wins over that of [serve]."""

    repo: Annotated[str, toml.TEXT]
    names: Annotated[tuple[str, ...], toml.NAMES]
    revision: Annotated[str | None, toml.TEXT] = None
    context: Annotated[int | None, toml.whole(1)] = None
    args: Annotated[tuple[str, ...], toml.ARGS] = ()
    reasoning_parser: Annotated[str | None, toml.TEXT] = None
    tool_parser: Annotated[str | None, toml.TEXT] = None
    speculative: Annotated[tuple[tuple[str, toml.Scalar], ...], toml.PAIRS] = ()


class Effort(NamedTuple):
    """[bridge.effort]: tokens of thinking per effort of the request; `max` has no budget."""

    low: Annotated[int, toml.whole(1)] = 1024
    medium: Annotated[int, toml.whole(1)] = 4096
    high: Annotated[int, toml.whole(1)] = 16_384
    xhigh: Annotated[int, toml.whole(1)] = 32_768


class Bridge(NamedTuple):
    mode: Annotated[Literal["translate", "native", "off"], toml.one_of("translate", "native", "off")] = "translate"
    ping_seconds: Annotated[float, toml.number(0)] = 15.0
    max_streams: Annotated[int, toml.whole(1)] = 256
    guard: Annotated[Literal["off", "warn", "refuse"], toml.one_of("off", "warn", "refuse")] = "off"
    unknown_model: Annotated[Literal["serve", "refuse"], toml.one_of("serve", "refuse")] = "serve"
    effort: Effort = Effort()


class Swap(NamedTuple):
    on_request: Annotated[bool, toml.FLAG] = False
    dwell_minutes: Annotated[float, toml.number(0)] = 10.0
    strategy: Annotated[Literal["restart", "sleep"], toml.one_of("restart", "sleep")] = "restart"


class Idle(NamedTuple):
    stop_after_minutes: Annotated[float | None, toml.number(0)] = None


class Log(NamedTuple):
    mirror: Annotated[str | None, toml.MIRROR] = None
    every_seconds: Annotated[float, toml.number(0)] = 25.0


class Preload(NamedTuple):
    models: Annotated[tuple[str, ...], toml.TEXTS] = ()


class Desktop(NamedTuple):
    enabled: Annotated[bool, toml.FLAG] = False


class Code(NamedTuple):
    sha256: Annotated[str | None, toml.TEXT] = None


class PodSpec(NamedTuple):
    serve: Serve
    models: Mapping[str, Model]
    serial: Annotated[int, toml.whole(0)] = 0
    bridge: Bridge = Bridge()
    swap: Swap = Swap()
    idle: Idle = Idle()
    log: Log = Log()
    preload: Preload = Preload()
    desktop: Desktop = Desktop()
    code: Code = Code()

    @property
    def served(self) -> Model:
        return self.models[self.serve.model]


_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


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
    models = document.get("models")
    for key, model in models.items() if isinstance(models, dict) else ():
        if isinstance(model, dict):
            model.setdefault("names", [key])
    reader = toml.Reader(text)
    spec: PodSpec = reader.section(PodSpec, (), document)
    _check_across(spec, reader)
    return spec


def _check_across(spec: PodSpec, reader: toml.Reader) -> None:
    serve, known = spec.serve, ", ".join(spec.models) or "none"
    wanted = [("serve", "model", serve.model), *(("preload", "models", key) for key in spec.preload.models)]
    for section, name, key in wanted:
        if key not in spec.models:
            near = difflib.get_close_matches(key, spec.models, n=1)
            message = f'"{name}" in [{section}] has "{key}", and there is no [models.{key}] (there is: {known})'
            raise reader.error(message, (section, name), near[0] if near else None)
    if serve.memory_utilization is not None and serve.kv_cache_bytes is not None:
        message = '"memory_utilization" and "kv_cache_bytes" in [serve] exclude each other; keep one'
        raise reader.error(message, ("serve", "kv_cache_bytes"))
    owners: dict[str, str] = {}
    for key, model in spec.models.items():
        for name in model.names:
            if owners.setdefault(name, key) != key:
                message = f'the name "{name}" belongs to [models.{owners[name]}] already'
                raise reader.error(message, ("models", key, "names"))


_NOT_YET = (
    *("bridge.mode", "bridge.guard", "swap.on_request", "idle.stop_after_minutes", "log.mirror", "preload.models"),
    *("desktop.enabled", "code.sha256"),
)


def not_in_force(spec: PodSpec) -> tuple[str, ...]:
    """Settings that are read and checked, and that this version of the pod does not act on: to be said aloud."""
    default = PodSpec(spec.serve, spec.models)
    places = [(name, operator.attrgetter(name)) for name in _NOT_YET]
    return tuple("[{}] {}".format(*name.split(".")) for name, value in places if value(spec) != value(default))
