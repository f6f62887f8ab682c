from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bridge.config import DEFAULT_EFFORT, VERSION, ConfigError, load

GOOD = {
    "PASSERELLE_ENGINE_URL": "http://127.0.0.1:8001/v1/",
    "PASSERELLE_CLIENT_TOKEN": "client",
    "PASSERELLE_OPERATOR_TOKEN": "operator",
    "PASSERELLE_MODEL_NAMES": '["m", "alias"]',
}


def test_defaults() -> None:
    config = load(GOOD)
    assert (config.engine_url, config.model_names) == ("http://127.0.0.1:8001", ("m", "alias"))
    assert (config.mode, config.guard, config.swap, config.insecure_no_auth) == ("translate", "off", "off", False)
    assert (config.listen_fd, config.host, config.port) == (None, "127.0.0.1", 8080)
    assert (config.ping_seconds, config.max_streams, config.unknown_model) == (15.0, 256, "serve")
    assert config.effort == DEFAULT_EFFORT


def test_everything_set() -> None:
    config = load(
        GOOD
        | {
            "PASSERELLE_LISTEN_FD": "5",
            "PASSERELLE_PORT": "0",
            "PASSERELLE_BOOTSTRAP_SOCKET": "/run/b.sock",
            "PASSERELLE_PING_SECONDS": "0.5",
            "PASSERELLE_MAX_STREAMS": "3",
            "PASSERELLE_EFFORT": '{"low": 10}',
            "PASSERELLE_UNKNOWN_MODEL": "refuse",
            "PASSERELLE_DRAIN_SECONDS": "30",
            "PASSERELLE_HOLD_SECONDS": "60",
            "PASSERELLE_REFUSED_SECONDS": "1",
            "PASSERELLE_MODE": "native",
            "PASSERELLE_GUARD": "warn",
            "PASSERELLE_SWAP": "on",
        }
    )
    assert (config.listen_fd, config.port, config.bootstrap_socket) == (5, 0, "/run/b.sock")
    assert (config.ping_seconds, config.max_streams, config.effort) == (0.5, 3, {"low": 10})
    assert (config.unknown_model, config.drain_seconds) == ("refuse", 30.0)
    assert (config.hold_seconds, config.refused_seconds) == (60.0, 1.0)
    assert (config.mode, config.guard, config.swap) == ("native", "warn", "on")


def test_a_supervisor_says_where_the_engine_is() -> None:
    env = {name: value for name, value in GOOD.items() if name != "PASSERELLE_ENGINE_URL"}
    assert load(env | {"PASSERELLE_BOOTSTRAP_SOCKET": "/run/b.sock"}).engine_url is None


def test_without_tokens_it_is_for_loopback_only() -> None:
    env = {"PASSERELLE_ENGINE_URL": "http://gpu:8000", "PASSERELLE_INSECURE_NO_AUTH": "true"}
    assert load(env).client_token == ""
    with pytest.raises(ConfigError, match=r"^PASSERELLE_INSECURE_NO_AUTH is for loopback only"):
        load(env | {"PASSERELLE_HOST": "0.0.0.0"})


@pytest.mark.parametrize("name", sorted(GOOD.keys() - {"PASSERELLE_MODEL_NAMES"}))
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} "):
        load({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PASSERELLE_ENGINE_URL", "127.0.0.1:8001"),
        ("PASSERELLE_OPERATOR_TOKEN", "client"),
        ("PASSERELLE_MODEL_NAMES", "m"),
        ("PASSERELLE_MODEL_NAMES", '[""]'),
        ("PASSERELLE_MODE", "both"),
        ("PASSERELLE_GUARD", "on"),
        ("PASSERELLE_SWAP", "yes"),
        ("PASSERELLE_HOLD_SECONDS", "-1"),
        ("PASSERELLE_MODEL_NAMES", '{"m": 1}'),
        ("PASSERELLE_MODEL_NAMES", "[1]"),
        ("PASSERELLE_LISTEN_FD", "x"),
        ("PASSERELLE_LISTEN_FD", "-1"),
        ("PASSERELLE_PORT", "70000"),
        ("PASSERELLE_PING_SECONDS", "soon"),
        ("PASSERELLE_PING_SECONDS", "0"),
        ("PASSERELLE_PING_SECONDS", "nan"),
        ("PASSERELLE_DRAIN_SECONDS", "inf"),
        ("PASSERELLE_MAX_STREAMS", "0"),
        ("PASSERELLE_EFFORT", '{"low": "1"}'),
        ("PASSERELLE_EFFORT", '{"low": true}'),
        ("PASSERELLE_UNKNOWN_MODEL", "maybe"),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} "):
        load(GOOD | {name: value})


def test_tokens_are_not_in_its_repr() -> None:
    assert "operator" not in repr(load(GOOD)).replace("operator_token", "")


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


def test_a_password_in_a_refused_address_is_not_said() -> None:
    with pytest.raises(ConfigError) as refused:
        load({"PASSERELLE_ENGINE_URL": "ftp://user:hunter2@engine:8000"})
    assert "PASSERELLE_ENGINE_URL" in str(refused.value)
    assert "hunter2" not in str(refused.value)
