"""Environment -> Config, checked once at start. A bad or missing variable is an error that names it.

Each field is read from PASSERELLE_ and its name in capitals; its type says, also in words, what it may be.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta

from bridge.names import UnknownModel

VERSION = "0.1.0"  # the project's own; the pod runs from a zipapp, where no package metadata says it
DEFAULT_EFFORT = {"low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768}

Text = Annotated[str, Meta(description="text")]
Name = Annotated[str, Meta(min_length=1)]
Whole = Annotated[int, Meta(ge=0, description="a whole number")]
Positive = Annotated[int, Meta(gt=0, description="a whole number above 0")]
Seconds = Annotated[float, Meta(gt=0, lt=1e9, description="a number of seconds above 0")]
_JSON = ("model_names", "effort")


class ConfigError(Exception):
    """The message starts with the variable's name."""


@dataclass(frozen=True, slots=True)
class Config:
    engine_url: Annotated[
        str, Meta(pattern="^https?://", description="an address that starts with http:// or https://")
    ]
    client_token: Text = field(repr=False)
    operator_token: Text = field(repr=False)
    model_names: Annotated[tuple[Name, ...], Meta(min_length=1, description="a JSON list of at least one name")]
    listen_fd: Whole | None = None  # a bound socket that the supervisor owns; else host and port are bound here
    host: Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="a port number")] = 8080
    bootstrap_socket: Text | None = None
    ping_seconds: Seconds = 15.0
    max_streams: Positive = 256
    # Thinking tokens per output_config.effort; a level that is absent has no budget.
    effort: Annotated[Mapping[str, Positive], Meta(description="a JSON object of levels and token counts above 0")] = (
        field(default_factory=lambda: dict(DEFAULT_EFFORT))
    )
    unknown_model: Annotated[UnknownModel, Meta(description="'serve' or 'refuse'")] = "serve"
    drain_seconds: Seconds = 600.0  # how long streams may go on after SIGTERM


def load(env: Mapping[str, str]) -> Config:
    """Raises ConfigError."""
    types = get_type_hints(Config, include_extras=True)
    values: dict[str, Any] = {}
    for one in fields(Config):
        variable = f"PASSERELLE_{one.name.upper()}"
        kind, text = types[one.name], env.get(variable)
        if not text:
            if one.default is MISSING and one.default_factory is MISSING:
                raise ConfigError(f"{variable} is not set")
            continue
        try:
            decoded = msgspec.json.decode(text) if one.name in _JSON else text
            values[one.name] = msgspec.convert(decoded, kind, strict=one.name in _JSON)
        except msgspec.DecodeError as cause:
            words = [meta.description for part in (kind, *get_args(kind)) for meta in getattr(part, "__metadata__", ())]
            raise ConfigError(f"{variable} must be {words[0]}, not {text!r}") from cause
    if values["client_token"] == values["operator_token"]:
        raise ConfigError("PASSERELLE_OPERATOR_TOKEN must differ from PASSERELLE_CLIENT_TOKEN")
    values["engine_url"] = values["engine_url"].rstrip("/")
    values["model_names"] = tuple(dict.fromkeys(values["model_names"]))
    return Config(**values)
