"""What is run, by settings and spec."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap import launches
from bootstrap.errors import Problem
from bootstrap.launches import Settings, free_port
from bootstrap.runner import listen
from bootstrap.spec import parse

CONFIG = '[serve]\nmodel = "a"\n[models.a]\nrepo = "x/a"\n[log]\nmirror = "dir:///logs"\n'
SPEC = parse(CONFIG)
ENVIRON = {
    "PASSERELLE_CLIENT_TOKEN": "client-secret",
    "PASSERELLE_OPERATOR_TOKEN": "operator-secret",
    "HF_TOKEN": "hf_x",
}
GIVEN = Settings(Path("pod.toml"), None, Path("/s"), Path("/s/b.sock"), "127.0.0.1", 0, 0, ("vllm",), ENVIRON)


def test_the_engine_is_asked_on_its_port() -> None:
    launch = launches.engine(GIVEN, SPEC, "a", 1234, peer_to_peer=True)
    assert (launch.name, launch.health) == ("engine", "http://127.0.0.1:1234/health")
    assert launch.argv[:3] == ("vllm", "serve", "x/a")
    assert "PASSERELLE_OPERATOR_TOKEN" not in launch.env


def test_an_address_of_all_is_asked_on_loopback_and_ipv6_in_brackets() -> None:
    with listen("0.0.0.0", 0) as every:
        bridge = launches.bridge(GIVEN, SPEC, every, "http://127.0.0.1:1234")
        assert bridge.health == f"http://127.0.0.1:{every.getsockname()[1]}/healthz"
        assert bridge.fd == every.fileno()
    try:
        one = listen("::1", 0)
    except Problem as problem:
        pytest.skip(str(problem))
    with one:
        assert launches.bridge(GIVEN, SPEC, one, "").health == f"http://[::1]:{one.getsockname()[1]}/healthz"


def test_children_of_a_zipapp_find_their_code_in_it() -> None:
    zipped = replace(GIVEN, archive="/p/passerelle.pyz")
    with listen("127.0.0.1", 0) as one:
        assert launches.bridge(zipped, SPEC, one, "").env["PYTHONPATH"] == "/p/passerelle.pyz"
    assert launches.worker(zipped, SPEC, Path("/l"), stop=False).env["PYTHONPATH"] == "/p/passerelle.pyz"
    assert "PYTHONPATH" not in launches.engine(zipped, SPEC, "a", 1, peer_to_peer=True).env


def test_the_workers_job_has_no_secret_on_its_command_line() -> None:
    pod = replace(GIVEN, hub="dir:///c", environ={**ENVIRON, "RUNPOD_POD_ID": "abc", "RUNPOD_API_KEY": "rpa_x"})
    launch = launches.worker(pod, SPEC, Path("/l/pod.log"), stop=True)
    job = json.loads(launch.argv[-1])
    assert (job["config"], job["mirror"], job["mirrored_as"], job["stop"]) == ("dir:///c", "dir:///logs", "abc", "abc")
    assert not any(secret in " ".join(launch.argv) for secret in (*ENVIRON.values(), "rpa_x"))
    assert (launch.env["HF_TOKEN"], launch.env["RUNPOD_API_KEY"]) == ("hf_x", "rpa_x")
    assert json.loads(launches.worker(pod, None, Path("/l"), stop=False).argv[-1])["mirror"] is None


def test_the_engines_interpreter_is_the_one_beside_its_program(tmp_path: Path) -> None:
    for name in ("vllm", "python3"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    assert replace(GIVEN, environ={"PATH": str(tmp_path)}).engine_python == str(tmp_path / "python3")
    assert replace(GIVEN, environ={"PATH": "/nonexistent"}).engine_python is None
    assert replace(GIVEN, vllm=("python3", "-m", "x"), environ=dict(os.environ)).engine_python is None


def test_a_free_port_is_below_the_ephemeral_range() -> None:
    assert 20_000 <= free_port() < 32_000


def test_no_token_is_in_the_repr() -> None:
    assert "-secret" not in repr(GIVEN)
