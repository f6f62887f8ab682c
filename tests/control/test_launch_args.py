"""The start command: quoting-proof, without secrets, and really run by python3 and by shells against the Hub double."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from control import launch_args, pod_ssh, pod_start
from tests.control.publishing import OPERATOR, published
from tests.doubles.hub import HubDouble

FAKE_POD = """
import os, sys
if __name__ == "__main__":
    print("ARGV", sys.argv[1:], os.environ["HF_TOKEN"] in " ".join(sys.orig_argv))
"""


def environ(hub: HubDouble, tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PASSERELLE_HUB": "hf://datasets/alice/pods",
        "PASSERELLE_OPERATOR_TOKEN": OPERATOR,
        "PASSERELLE_STATE": str(tmp_path / "state"),
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": "hf_reader",
    }


def test_it_is_short_plain_and_without_any_secret() -> None:
    (argument,) = launch_args.command()
    assert len(argument) < 5_000
    assert not set(argument) & set('"\\$`!\n\t<>|&*?{}')
    assert json.loads(json.dumps({"cmd": launch_args.command()}))["cmd"] == [argument]
    assert shlex.split(launch_args.line()) == [*launch_args.ENTRYPOINT, argument]


def test_the_program_is_the_modules_without_their_words() -> None:
    text = launch_args.program()
    assert '"""' not in text
    assert "#" not in text
    assert "control" not in text
    scope: dict[str, object] = {"__name__": "not main"}
    exec(text, scope)
    for part in (pod_ssh, pod_start):
        assert {name for name in vars(part) if not name.startswith("__")} <= set(scope)


def test_the_parts_do_not_redefine_each_other() -> None:
    def own(part: ModuleType) -> set[str]:
        return {name for name, value in vars(part).items() if getattr(value, "__module__", "") == part.__name__}

    assert not own(pod_ssh) & own(pod_start)


@pytest.mark.process
@pytest.mark.parametrize("way", ["exec", "sh", "bash", "json"])
def test_it_becomes_the_code_that_was_published(way: str, hub: HubDouble, tmp_path: Path) -> None:
    hub.seed("datasets/alice/pods", published(1, FAKE_POD))
    entry = [sys.executable, *launch_args.ENTRYPOINT[1:]]
    argv = {
        "exec": [*entry, *launch_args.command()],
        "json": [*entry, *json.loads(json.dumps(launch_args.command()))],
        "sh": ["sh", "-c", launch_args.line()],
        "bash": ["bash", "-c", launch_args.line()],
    }[way]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"no {argv[0]} here")
    done = subprocess.run(argv, env=environ(hub, tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    state = str(tmp_path / "state")
    words = ["run", "--hub", "hf://datasets/alice/pods", "--state", state, "--host", "0.0.0.0"]
    assert done.stdout.splitlines()[-1] == f"ARGV {words} False"
    assert "hf_reader" not in done.stdout + done.stderr
    assert OPERATOR not in done.stdout + done.stderr
