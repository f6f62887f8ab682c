"""A scripted engine: `python fake_vllm.py serve MODEL … --port N …` answers /health, /metrics, and with sleep mode
/sleep and /wake_up; it ignores every other flag, and misbehaves as FAKE_VLLM (of [serve] env) says.

die: at once. die-MODEL: if it serves that model. deaf: to SIGTERM. leave: a grandchild in a session of its own, which
outlives it. leak: tells secrets. core: with a process as vLLM's EngineCore. insomnia: it cannot sleep.
AWAKE names a file that gets a line "PID awake|asleep|ended MODEL" for each change.
"""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PREFIX = f"(APIServer pid={os.getpid()}) INFO 11-29 12:54:32 [api_server.py:1] "
TRICKS = os.environ.get("FAKE_VLLM", "").split(",")
MODEL = sys.argv[2]
METRICS = b'vllm:num_requests_running{model_name="m"} 0.0\nvllm:generation_tokens_total{model_name="m"} 1.0\n'


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({"/health": b"", "/metrics": METRICS}.get(self.path))

    def do_POST(self) -> None:
        sleeps = "--enable-sleep-mode" in sys.argv and "insomnia" not in TRICKS
        if self.path == "/sleep?level=1" and sleeps:
            note("asleep")
        elif self.path == "/wake_up" and sleeps:
            note("awake")
        else:
            return self._answer(None)
        self._answer(b"")

    def _answer(self, body: bytes | None) -> None:
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


def note(what: str) -> None:
    if path := os.environ.get("AWAKE"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {what} {MODEL}\n")


def say(text: str) -> None:
    sys.stdout.write(PREFIX + text + "\n")
    sys.stdout.flush()


def end(*_: object) -> None:
    note("ended")
    os._exit(0)


def misbehave() -> None:
    if "die" in TRICKS or f"die-{MODEL}" in TRICKS:
        sys.exit("ValueError: this model cannot be served")
    if "leak" in TRICKS:
        say("non-default args: {'hf_token': 'plain-secret-0123'}")
        say("Authorization: Bearer " + os.environ["LEAKED"])
        say("client token is " + os.environ["LEAKED"] + " and hf_abcdefghijklmnop")
    if "leave" in TRICKS:
        sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        left = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True, stdout=subprocess.DEVNULL)
        say(f"left {left.pid}")
    if "core" in TRICKS:
        name = Path(os.environ["CORE"])
        core = subprocess.Popen([str(name), "600"])
        say(f"core {core.pid}")


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in TRICKS else end)
    say("environment: " + " ".join(sorted(name for name in os.environ if name.startswith("PASSERELLE"))))
    misbehave()
    time.sleep(float(os.environ.get("SLOW", "0")))
    port = int(sys.argv[sys.argv.index("--port") + 1])
    note("awake")
    say(f"serving on {port}")
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever()


if __name__ == "__main__":
    main()
