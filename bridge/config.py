"""Environment -> Config, checked once at start. A bad or missing variable is an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from bridge.names import UnknownModel

VERSION = "0.1.0"
"""The project's own; the pod runs from a zipapp, where no package metadata says it."""
DEFAULT_EFFORT = {"low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768}


class ConfigError(Exception):
    """The message starts with the variable's name."""


@dataclass(frozen=True, slots=True)
class Config:
    engine_url: str
    client_token: str = field(repr=False)
    operator_token: str = field(repr=False)
    model_names: tuple[str, ...]
    listen_fd: int | None = None
    """A bound socket that the supervisor owns; else host and port are bound here."""
    host: str = "127.0.0.1"
    port: int = 8080
    bootstrap_socket: str | None = None
    ping_seconds: float = 15.0
    max_streams: int = 256
    effort: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_EFFORT))
    """Thinking tokens per output_config.effort; a level that is absent has no budget."""
    unknown_model: UnknownModel = "serve"
    drain_seconds: float = 600.0
    """How long streams may go on after SIGTERM."""


def load(env: Mapping[str, str]) -> Config:
    """Raises ConfigError."""
    read = _Reader(env)
    client, operator = read.text("CLIENT_TOKEN"), read.text("OPERATOR_TOKEN")
    if client == operator:
        raise ConfigError("PASSERELLE_OPERATOR_TOKEN must differ from PASSERELLE_CLIENT_TOKEN")
    engine_url = read.text("ENGINE_URL").rstrip("/")
    if not engine_url.startswith(("http://", "https://")):
        raise ConfigError("PASSERELLE_ENGINE_URL must start with http:// or https://")
    return Config(
        engine_url=engine_url,
        client_token=client,
        operator_token=operator,
        model_names=read.names("MODEL_NAMES"),
        listen_fd=read.integer("LISTEN_FD", None, 0),
        host=read.text("HOST", "127.0.0.1"),
        port=read.integer("PORT", 8080, 0, 65535) or 0,
        bootstrap_socket=env.get("PASSERELLE_BOOTSTRAP_SOCKET") or None,
        ping_seconds=read.number("PING_SECONDS", 15.0),
        max_streams=read.integer("MAX_STREAMS", 256, 1) or 1,
        effort=read.effort("EFFORT"),
        unknown_model=read.choice("UNKNOWN_MODEL"),
        drain_seconds=read.number("DRAIN_SECONDS", 600.0),
    )


class _Reader:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def text(self, name: str, default: str | None = None) -> str:
        value = self._env.get(f"PASSERELLE_{name}") or default
        if value is None:
            raise ConfigError(f"PASSERELLE_{name} is not set")
        return value

    def integer(self, name: str, default: int | None, low: int, high: int | None = None) -> int | None:
        value = self._env.get(f"PASSERELLE_{name}")
        if not value:
            return default
        if not value.isascii() or not value.isdecimal() or int(value) < low or (high is not None and int(value) > high):
            raise ConfigError(f"PASSERELLE_{name} must be a whole number of at least {low}, not {value!r}")
        return int(value)

    def number(self, name: str, default: float) -> float:
        value = self._env.get(f"PASSERELLE_{name}")
        if not value:
            return default
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < float("inf"):
            raise ConfigError(f"PASSERELLE_{name} must be a number of seconds above 0, not {value!r}")
        return seconds

    def names(self, name: str) -> tuple[str, ...]:
        names = self._json(name, self.text(name))
        if not isinstance(names, list) or not names or not all(isinstance(item, str) and item for item in names):
            raise ConfigError(f"PASSERELLE_{name} must be a JSON list of at least one name")
        return tuple(dict.fromkeys(names))

    def effort(self, name: str) -> dict[str, int]:
        value = self._env.get(f"PASSERELLE_{name}")
        if not value:
            return dict(DEFAULT_EFFORT)
        levels = self._json(name, value)
        if not isinstance(levels, dict) or not all(type(budget) is int and budget > 0 for budget in levels.values()):
            raise ConfigError(f"PASSERELLE_{name} must be a JSON object of levels and token counts above 0")
        return levels

    def choice(self, name: str) -> UnknownModel:
        value = self._env.get(f"PASSERELLE_{name}") or "serve"
        for option in get_args(UnknownModel):
            if value == option:
                chosen: UnknownModel = option
                return chosen
        raise ConfigError(f"PASSERELLE_{name} must be one of {', '.join(get_args(UnknownModel))}, not {value!r}")

    @staticmethod
    def _json(name: str, value: str) -> Any:
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError as cause:
            raise ConfigError(f"PASSERELLE_{name} is not JSON: {cause}") from cause
