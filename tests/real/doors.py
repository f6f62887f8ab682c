"""Bridges that run alone, as somebody would start them in front of a vLLM of their own: one process per mode."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anthropic
import httpx
import msgspec

from bridge.report import PodReport
from control.local.processes import free_port

MODES = ("translate", "native", "off")
CLIENT, OPERATOR = "client-token-of-a-door", "operator-token-of-a-door"


@dataclass(frozen=True)
class Door:
    mode: str
    url: str

    def report(self) -> PodReport:
        headers = {"authorization": f"Bearer {OPERATOR}"}
        answer = httpx.get(f"{self.url}/pod/report?finished=50", headers=headers, trust_env=False, timeout=10)
        return msgspec.json.decode(answer.content, type=PodReport)

    def client(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=self.url, auth_token=CLIENT, api_key=None, max_retries=0)


@contextlib.contextmanager
def door(mode: str, engine_url: str, log: Path) -> Iterator[Door]:
    """Open once the bridge has learned what the engine takes."""
    port = free_port()
    command = [sys.executable, "-P", "-m", "bridge", "--listen", f"127.0.0.1:{port}", "--upstream", engine_url]
    tokens = {"PASSERELLE_CLIENT_TOKEN": CLIENT, "PASSERELLE_OPERATOR_TOKEN": OPERATOR}
    env = os.environ | tokens | {"PASSERELLE_MODE": mode}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
    try:
        one = Door(mode, f"http://127.0.0.1:{port}")
        _wait_open(one, process, log)
        yield one
    finally:
        process.kill()
        process.wait()


def _wait_open(one: Door, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text("utf-8")
        with contextlib.suppress(httpx.TransportError):
            if one.report().engine.supports is not None:
                return
        time.sleep(0.1)
    raise TimeoutError(f"the bridge did not learn its engine: {log.read_text('utf-8')}")
