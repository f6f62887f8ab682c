"""Environment -> Config, checked once at start. A bad or missing variable is an error that names it."""

# A field's alias is its variable: PASSERELLE_ and its name in capitals. Lists and objects are JSON there.

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

VERSION = "0.1.0"  # the project's own; the pod runs from a zipapp, where no package metadata says it
DEFAULT_EFFORT = {"low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768}

_Json = BeforeValidator(lambda value: json.loads(value) if isinstance(value, str) else value)
_Url = AfterValidator(lambda url: url.rstrip("/").removesuffix("/v1"))
Seconds = Annotated[float, Field(gt=0, lt=1e9)]


# The message starts with the variable's name.
class ConfigError(Exception): ...


class Config(BaseModel, frozen=True, hide_input_in_errors=True, validate_by_name=True):
    model_config = ConfigDict(alias_generator=lambda name: "PASSERELLE_" + name.upper())

    engine_url: Annotated[str, Field(pattern="^https?://."), _Url] | None = None  # where no supervisor says it
    bootstrap_socket: str | None = None
    client_token: str = Field("", repr=False)
    operator_token: str = Field("", repr=False)
    insecure_no_auth: bool = False  # every route open to everybody: on loopback only
    model_names: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], _Json] = ()  # else what the engine says
    listen_fd: Annotated[int, Field(ge=0)] | None = None  # a bound socket that the supervisor owns; else host and port
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    mode: Literal["translate", "native", "off"] = "translate"
    guard: Literal["off", "warn", "refuse"] = "off"
    swap: Literal["on", "off"] = "off"  # may a request for another model ask for it
    unknown_model: Literal["serve", "refuse"] = "serve"
    # Thinking tokens per output_config.effort; a level that is absent has no budget.
    effort: Annotated[Mapping[str, Annotated[int, Field(gt=0, strict=True)]], _Json] = DEFAULT_EFFORT
    ping_seconds: Seconds = 15.0
    max_streams: Annotated[int, Field(gt=0)] = 256
    hold_seconds: Seconds = 900.0  # how long a request waits for an engine that starts, drains or swaps
    refused_seconds: Seconds = 10.0  # and for one that should be there and refuses the connection
    drain_seconds: Seconds = 600.0  # how long streams may go on after SIGTERM

    @model_validator(mode="after")
    def _together(self) -> Self:
        asks, here = not self.insecure_no_auth, self.host in ("127.0.0.1", "::1", "localhost")
        wrong = {
            "ENGINE_URL is not set": not (self.engine_url or self.bootstrap_socket),
            f"INSECURE_NO_AUTH is for loopback only, not for {self.host}": not (asks or here),
            "CLIENT_TOKEN is not set": asks and not self.client_token,
            "OPERATOR_TOKEN is not set": asks and not self.operator_token,
            "OPERATOR_TOKEN must differ from the client's": asks and self.client_token == self.operator_token,
        }
        for problem in [words for words, is_so in wrong.items() if is_so]:
            raise ValueError(problem)
        return self


# An empty variable counts as none. Raises ConfigError.
def load(env: Mapping[str, Any]) -> Config:
    given = {name: value for name, value in env.items() if name.startswith("PASSERELLE_") and value}
    try:
        return Config.model_validate(given)
    except ValidationError as cause:
        first = cause.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        said = "..." if "@" in f"{given.get(name)}" else repr(given.get(name))  # an address may hold a password
        where = f"{name} is {said}: " if name else "PASSERELLE_"
        raise ConfigError(where + first["msg"].removeprefix("Value error, ")) from cause
