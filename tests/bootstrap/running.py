"""One running bootstrap, its engine and bridge scripted. A test ends only what it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import msgspec

from bootstrap import ctlsocket
from bootstrap.errors import Problem
from bootstrap.processes import descendants, living
from bootstrap.report import Service, Status
from bootstrap.seal import sign
from tests.bootstrap.deadline import wait_for

OPERATOR = "operator-token-4567"
MODELS = ("tiny", "other")


def config(serial: int = 7, tricks: str = "", more: str = "", model: str = "tiny", strategy: str = "restart") -> str:
    models = "".join(f'[models.{key}]\nrepo = "{key}"\nnames = ["{key}-name"]\n' for key in MODELS)
    serve = f'[serve]\nmodel = "{model}"\n[serve.env]\nFAKE_VLLM = "{tricks}"\nLEAKED = "client-token-0123"\n'
    return f'serial = {serial}\n{serve}{models}[swap]\nstrategy = "{strategy}"\ndwell_minutes = 0.0001\n{more}'


def publish(folder: Path, text: str, signature: str | None = None) -> None:
    """As control does: each file replaced whole, the signature first."""
    for name, content in (("pod.toml.sig", signature or sign(text.encode(), OPERATOR)), ("pod.toml", text)):
        (folder / f"{name}.part").write_text(content, encoding="utf-8")
        (folder / f"{name}.part").replace(folder / name)


class Bootstrap:
    def __init__(self, folder: Path, source: str, **env: str) -> None:
        self.state, self.hold = folder / "state", folder / "hold"
        self.hold.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bootstrap.scripted_pod", str(self.state), source],
            env={**os.environ, "HOLD": str(self.hold), **env},
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        return ctlsocket.ask(self.state / "b.sock", request)

    def status(self, log_after: int = 0) -> Status | None:
        """None while nobody answers."""
        with contextlib.suppress(Problem):
            return msgspec.convert(self.ask(cmd="status", log_after=log_after)["status"], Status, strict=True)
        return None

    def seen(self) -> Status:
        status = self.status()
        assert status is not None
        return status

    def once(self, holds: Callable[[Status], object], seconds: float = 30.0) -> Status:
        """The first status of which this holds."""

        def look() -> Status | None:
            status = self.status()
            return status if status and holds(status) else None

        return wait_for(look, seconds)

    def service(self, name: str, state: str, restarts: int = 0) -> Service:
        """The service once it is in this state and was restarted so often."""

        def look() -> Service | None:
            if (status := self.status()) is None:
                return None
            service: Service = getattr(status, name)
            return service if (service.state, service.restarts) == (state, restarts) else None

        return wait_for(look)

    def up(self) -> Status:
        self.service("engine", "serving")
        self.service("bridge", "serving")
        return self.seen()

    def serves(self, model: str) -> Status:
        def look() -> Status | None:
            status = self.status()
            return status if status and (status.model, status.engine.state) == (model, "serving") else None

        return wait_for(look)

    def text(self) -> str:
        return "\n".join(line.text for line in self.seen().log)

    def news(self) -> list[dict[str, Any]]:
        """What the bridge was told."""
        path = self.hold / "news"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def get(self, path: str) -> HTTPResponse:
        port = wait_for(lambda: self.bridge_port())
        response: HTTPResponse = urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30)
        return response

    def bridge_port(self) -> int | None:
        found = self.text().partition("bridge on port ")[2].split()
        return int(found[0]) if found else None

    def family(self) -> set[int]:
        return descendants([self.process.pid], living())

    def end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Stop it; the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        assert self.process.wait(timeout=15) == 0
        return time.monotonic() - began


@contextlib.contextmanager
def running(folder: Path, tricks: str = "", source: str | None = None, **env: str) -> Iterator[Bootstrap]:
    """`source`: a store; else a file with these tricks."""
    file = folder / "pod.toml"
    if source is None and not file.exists():
        file.write_text(config(tricks=tricks), encoding="utf-8")
    pod = Bootstrap(folder, source or str(file), **env)
    try:
        yield pod
    finally:
        if pod.process.poll() is None:
            pod.process.terminate()
            try:
                pod.process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                pod.process.kill()
                pod.process.wait()


def gone(pids: set[int]) -> bool:
    return not pids & living().keys()
