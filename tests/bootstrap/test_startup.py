"""Everything or nothing, and one line that says what is missing."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from bootstrap.startup import CannotStart, Settings, free_port, listen, prepare

CONFIG = '[serve]\nmodel = "a"\n[models.a]\nrepo = "x/a"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "pod.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def settings(config: Path, **changes: Any) -> Settings:
    state = changes.pop("state", config.parent / "state")
    given: dict[str, Any] = {
        "config": config,
        "state": state,
        "socket": state / "b.sock",
        "host": "127.0.0.1",
        "port": 0,
        "engine_port": 0,
        "vllm": ("vllm",),
        "bridge": ("bridge",),
        "client_token": "client-secret",
        "operator_token": "operator-secret",
        "environ": {"HF_TOKEN": "hub-secret"},
    }
    return Settings(**{**given, **changes})


def refused(given: Settings) -> tuple[int, str]:
    with pytest.raises(CannotStart) as caught:
        prepare(given)
    return caught.value.exit_code, str(caught.value)


def test_ready(config: Path) -> None:
    ready = prepare(settings(config, engine_port=1234))
    with ready.listener, ready.control:
        assert (ready.spec.serve.model, ready.engine_port) == ("a", 1234)
        assert ready.listener.getsockname()[1] > 0
        assert (config.parent / "state" / "logs").stat().st_mode & 0o777 == 0o700


def test_a_port_in_use(config: Path) -> None:
    with listen("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        code, line = refused(settings(config, port=port))
    assert (code, line) == (
        2,
        f"port {port} on 127.0.0.1 is in use by another program; stop it, or give another --port",
    )


@pytest.mark.parametrize(
    ("host", "port", "code"), [("256.1.1.1", 0, 2), ("127.0.0.1", 70_000, 64), ("192.0.2.1", 0, 2)]
)
def test_an_address_that_is_none(config: Path, host: str, port: int, code: int) -> None:
    assert refused(settings(config, host=host, port=port))[0] == code


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            CONFIG.replace("model =", "modell ="),
            'pod.toml line 2: unknown key "modell" in [serve]; did you mean "model"?',
        ),
        (None, "cannot read the config"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_a_config_that_cannot_be_used(config: Path, content: str | bytes | None, says: str) -> None:
    config.unlink()
    if content is not None:
        config.write_bytes(content.encode() if isinstance(content, str) else content)
    code, line = refused(settings(config))
    assert code == 64
    assert says in line


def test_a_state_folder_that_is_a_file(config: Path) -> None:
    code, line = refused(settings(config, state=config))
    assert (code, line) == (2, f"cannot use {config} as the state folder: File exists")


def test_the_bridges_socket_is_given_back_when_something_else_is_missing(config: Path) -> None:
    port = free_port()
    refused(settings(config, port=port, state=config))
    listen("127.0.0.1", port).close()


def test_a_control_socket_in_use(config: Path) -> None:
    ready = prepare(settings(config))
    with ready.listener, ready.control:
        ready.control.listen()
        code, line = refused(settings(config))
    assert code == 2
    assert "another bootstrap answers" in line


def test_ipv6_when_the_machine_has_it() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        listener = listen("::1", 0)
    except CannotStart as error:
        pytest.skip(str(error))
    with listener:
        assert listener.family == socket.AF_INET6


def test_a_free_port_is_below_the_ephemeral_range() -> None:
    assert 20_000 <= free_port() < 32_000


def test_no_token_is_in_the_repr(config: Path) -> None:
    assert "-secret" not in repr(settings(config))
