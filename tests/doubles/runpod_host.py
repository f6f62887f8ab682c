"""The double's machines: a pod that RunPod says is RUNNING is one, as processes here; and the double as a program.

    python -m tests.doubles.runpod_host FOLDER        prints what to export, and serves until it is ended

A pod runs the start command that it was created with, in its own environment, with a simulated `vllm` and a real sshd,
where there is one, on PATH. FOLDER/faults.json sets faults of the cloud while it runs: {"limited": 2}. One pod at a
time has the bridge's port.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from control.clock import Clock
from control.local.provider import SIMULATOR
from tests.doubles.runpod import KEY, RunPodDouble
from tests.doubles.runpod_cloud import Cloud, FakePod

LOOK_S = 0.2
END_S = 20.0
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass
class Machines:
    """Use as a context manager; `look` follows what the cloud says of its pods."""

    cloud: Cloud
    folder: Path
    running: dict[tuple[str, float, float | None], subprocess.Popen[bytes]] = field(default_factory=dict)
    """By pod and start: another start is another container."""

    def look(self) -> None:
        wanted = {
            (pod.id, pod.begun, pod.container_since): pod
            for pod in list(self.cloud.pods.values())
            if not pod.terminated and self.cloud.status(pod) == "RUNNING" and self._pulled(pod)
        }
        for run in [run for run in self.running if run not in wanted]:
            self._end(self.running.pop(run))
        self.cloud.lines = [line for file in self.folder.glob("*/container.log") for line in _lines(file)][-2000:]
        for run, pod in wanted.items():
            if run not in self.running:
                self.running[run] = self._start(pod)

    def close(self) -> None:
        for process in self.running.values():
            self._end(process)
        self.running.clear()

    def _pulled(self, pod: FakePod) -> bool:
        return self.cloud.clock.now() - pod.begun >= self.cloud.times.pulled

    def _start(self, pod: FakePod) -> subprocess.Popen[bytes]:
        home = self.folder / pod.id
        tools = home / "bin"
        tools.mkdir(parents=True, exist_ok=True)
        words = " ".join(SIMULATOR)
        self._program(tools / "vllm", f'exec {words} --sim-load-seconds 1 "$@"')
        self._program(tools / "python3", f'exec {sys.executable} "$@"')
        if SSHD is not None:
            options = f"-o Port={pod.port} -o ListenAddress=127.0.0.1 -o StrictModes=no -o PidFile={home}/sshd.pid"
            self._program(tools / "sshd", f'exec {SSHD} -f /dev/null {options} "$@"')
        env = {"PASSERELLE_STATE": str(home / "state"), **pod.body["env"], "RUNPOD_POD_ID": pod.id, "HOME": str(home)}
        env["PATH"] = f"{tools}:{os.environ.get('PATH', os.defpath)}"
        told = json.loads(pod.body["args"])
        argv = [*told["entrypoint"], *told["cmd"]]
        with (home / "container.log").open("ab") as log:
            return subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _program(self, path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for file in self.folder.glob("*/sshd.pid"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
                file.unlink()


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8", "replace").splitlines()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.doubles.runpod_host", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with RunPodDouble(Clock()) as double:
        cloud = double.cloud
        cloud.times.provisioned, cloud.times.container, cloud.times.running = 1.0, 2.0, 3.0
        cloud.times.pulled, cloud.times.stopping = 5.0, 2.0
        machines = Machines(cloud, folder)
        exports = {"RUNPOD_API_BASE_URL": double.url, "RUNPOD_API_KEY": KEY}
        exports["PASSERELLE_RUNPOD_PROXY"] = "http://127.0.0.1:{port}"
        (folder / "env").write_text("".join(f"export {name}='{value}'\n" for name, value in exports.items()))
        sys.stdout.write((folder / "env").read_text())
        sys.stdout.flush()
        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
        try:
            while not stopped.wait(LOOK_S):
                with contextlib.suppress(FileNotFoundError):
                    text = (folder / "faults.json").read_text()
                    (folder / "faults.json").unlink()
                    for name, value in json.loads(text).items():
                        setattr(cloud.faults, name, value)
                machines.look()
                (folder / "asked").write_text("".join(f"{time.ctime()} {s.method} {s.path}\n" for s in double.seen))
        except KeyboardInterrupt:
            return
        finally:
            machines.close()
            (folder / "violations").write_text("\n".join(double.violations))


if __name__ == "__main__":
    main()
